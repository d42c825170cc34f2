. "$DAILY_HOME/day.sh"
{
	echo "The month up to $day"
	echo
	awk -F, '{ printf "%-10s %2d days, %5.1f mm of rain on %d of them, highs of %.1f °C on average, %.1f °C at most\n", $1, $2, $3, $4, $5, $6 }' "$dir/aggregate.csv"
} | appear "$dir/report.txt"
cat "$dir/report.txt"
