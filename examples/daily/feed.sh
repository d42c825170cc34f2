# The upstream: the readings of the month up to the day, as carelessly as such
# things come: a line twice, one cut off, one that is no reading.
. "$DAILY_HOME/day.sh"
awk -F, -v day="$day" '
	NR == 1 { print; next }
	substr($2, 1, 7) == substr(day, 1, 7) && $2 <= day {
		print
		if (++n == 3) print
		if (n == 5) print "Seattle," day ",12.1"
		if (n == 7) print $1 "," $2 ",n/a,n/a,n/a,n/a,unknown"
	}' "$DAILY_HOME/../weather/weather.csv" | appear "$DAILY_WORK/incoming/$day.csv"
