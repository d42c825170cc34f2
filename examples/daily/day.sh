# Sourced by each step: which day, where its files are, and how a file appears.
set -eu
day=$(tr -d '"' <"$AXD_PAYLOAD_FILE")
case $day in
[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]) ;;
*)
	echo "the payload must be a day, not $day" >&2
	exit 2
	;;
esac
dir=$DAILY_WORK/$day
mkdir -p "$dir" "$DAILY_WORK/incoming"

# appear FILE: what comes on standard input is there whole or not at all. The
# fencing token keeps two attempts apart.
appear() {
	cat >"$1.$AXD_FENCING_TOKEN"
	mv "$1.$AXD_FENCING_TOKEN" "$1"
}
