# The share of right answers in Seattle's year 2015.
set -eu
least=$(cat "$AXD_PAYLOAD_FILE")
{
	cat "$MODEL_HOME/features.awk"
	cat <<'AWK'
NR == FNR { w[++m] = $1; next }
$1 == "Seattle" && year() == 2015 {
	wet = features(x)
	z = 0
	for (i = 1; i <= 5; i++) z += w[i] * x[i]
	n++
	right += (sigmoid(z) >= 0.5) == wet
}
END {
	if (n == 0 || m != 5) exit 3
	printf "%.4f\n", right / n
}
AWK
} >verify.awk
accuracy=$(awk -F, -f verify.awk "$MODEL_WORK/candidate/model.txt" "$MODEL_HOME/../weather/weather.csv")
echo "$accuracy" | tee "$MODEL_WORK/candidate/accuracy.txt" >"$AXD_OUTPUT_FILE"
awk -v got="$accuracy" -v least="$least" 'BEGIN { exit !(got >= least) }' || {
	echo "accuracy $accuracy is below $least: not to be published" >&2
	exit 1
}
echo "accuracy $accuracy, at least $least"
