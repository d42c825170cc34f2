# Keeps what is a reading, once.
. "$DAILY_HOME/day.sh"
awk -F, '
	function number(s) { return s ~ /^-?[0-9]+(\.[0-9]+)?$/ }
	NF == 7 && $2 ~ /^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]$/ && number($3) && number($4) && number($5) && number($6) && !seen[$1, $2]++
	' "$dir/raw.csv" | appear "$dir/clean.csv"
awk 'END { print NR }' "$dir/clean.csv" >"$AXD_OUTPUT_FILE"
