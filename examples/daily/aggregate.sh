. "$DAILY_HOME/day.sh"
awk -F, '
	{ n[$1]++; rain[$1] += $3; sum[$1] += $4 }
	$3 > 0 { wet[$1]++ }
	!($1 in hot) || $4 > hot[$1] { hot[$1] = $4 }
	END { for (c in n) printf "%s,%d,%.1f,%d,%.2f,%.1f\n", c, n[c], rain[c], wet[c], sum[c] / n[c], hot[c] }
	' "$dir/clean.csv" | sort | appear "$dir/aggregate.csv"
