# Logistic regression by gradient descent, on Seattle's years 2012 to 2014.
set -eu
mkdir -p "$MODEL_WORK/candidate"
{
	cat "$MODEL_HOME/features.awk"
	cat <<'AWK'
$1 == "Seattle" && year() < 2015 {
	n++
	y[n] = features(f)
	for (i = 1; i <= 5; i++) x[n, i] = f[i]
}
END {
	if (n == 0) exit 3
	for (round = 1; round <= 150; round++) {
		for (i = 1; i <= 5; i++) g[i] = 0
		for (k = 1; k <= n; k++) {
			z = 0
			for (i = 1; i <= 5; i++) z += w[i] * x[k, i]
			e = sigmoid(z) - y[k]
			for (i = 1; i <= 5; i++) g[i] += e * x[k, i]
		}
		for (i = 1; i <= 5; i++) w[i] -= 2 * g[i] / n
	}
	for (i = 1; i <= 5; i++) printf "%.6f\n", w[i]
}
AWK
} >"train.awk"
awk -F, -f train.awk "$MODEL_HOME/../weather/weather.csv" >"$MODEL_WORK/candidate/new.$AXD_FENCING_TOKEN"
mv "$MODEL_WORK/candidate/new.$AXD_FENCING_TOKEN" "$MODEL_WORK/candidate/model.txt"
