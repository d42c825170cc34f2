#!/bin/sh
# The last step of the ETL: the parts of all months become one table of years.
# usage: summary.sh DIR
set -eu
start=$(date +%s%N)
dir=$1
printf '%s %s %s %s\n' "$AXD_ATTEMPT" "$AXD_FENCING_TOKEN" "$start" "$AXD_EXECUTE_TIME" >>"$dir/runs/$AXD_TASK_ID"

new=$dir/.summary.$AXD_FENCING_TOKEN
{
	echo city,year,rain_mm,rainy_days,hottest_month,wind_max
	cat "$dir"/parts/*.csv | awk -F, '
		{ key = $1 "," substr($2, 1, 4); keys[key] }
		$3 == "rain_mm" { rain[key] += $4 }
		$3 == "rainy_days" { days[key] += $4 }
		$3 == "temp_max_mean" { if (!(key in hot) || $4 + 0 > hot[key]) hot[key] = $4 + 0 }
		$3 == "wind_max" { if ($4 + 0 > wind[key]) wind[key] = $4 + 0 }
		END { for (k in keys) printf "%s,%.1f,%d,%.2f,%.1f\n", k, rain[k], days[k], hot[k], wind[k] }
	' | sort
} >"$new"
mv "$new" "$dir/summary.csv"
cat "$dir/summary.csv"
