# Of each line of the weather: known values before the day ends, scaled to about
# -1 to 1, and whether it was wet. x[1] is 1, the constant.
function features(x) {
	x[1] = 1
	x[2] = ($4 - 16) / 10       # highest temperature
	x[3] = ($5 - 8) / 10        # lowest
	x[4] = ($4 - $5 - 8) / 5    # between them: clouds keep it small
	x[5] = ($6 - 3) / 3         # wind
	return $3 > 0
}
function sigmoid(z) { return 1 / (1 + exp(-z)) }
function year() { return substr($2, 1, 4) }
