#!/bin/sh
# One step of the ETL: one metric of one month of one city.
# usage: metric.sh CSV CITY MONTH METRIC DIR
set -eu
start=$(date +%s%N)
csv=$1 city=$2 month=$3 metric=$4 dir=$5

# What ran, and when, is told by the command itself: one line for each start.
# A task has a file of its own, so starts can't overwrite each other.
printf '%s %s %s %s\n' "$AXD_ATTEMPT" "$AXD_FENCING_TOKEN" "$start" "$AXD_EXECUTE_TIME" >>"$dir/runs/$AXD_TASK_ID"

part=$(printf '%s-%s-%s' "$city" "$month" "$metric" | tr ' ' '_')
# The token keeps two attempts apart; the rename makes the result appear whole.
new=$dir/parts/.$part.$AXD_FENCING_TOKEN
awk -F, -v city="$city" -v month="$month" -v metric="$metric" '
	$1 == city && substr($2, 1, 7) == month {
		n++
		if (metric == "temp_max_mean") v += $4
		else if (metric == "rain_mm") v += $3
		else if (metric == "rainy_days") v += ($3 > 0)
		else if (metric == "wind_max") { if ($6 + 0 > v) v = $6 + 0 }
		else exit 2
	}
	END {
		if (n == 0) exit 3
		f = "%.1f"
		if (metric == "temp_max_mean") { v /= n; f = "%.2f" }
		if (metric == "rainy_days") f = "%d"
		printf "%s,%s,%s," f "\n", city, month, metric, v
	}' "$csv" >"$new"
mv "$new" "$dir/parts/$part.csv"
echo "$city $month $metric: $(cut -d, -f4 "$dir/parts/$part.csv")"
