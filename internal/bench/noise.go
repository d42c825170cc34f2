package bench

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// noisy is the share of all cores from which on the work of others is told of.
const noisy = 0.1

// machineBusy is the time for which the machine's cores have worked since its start,
// for whomever, that stolen by other machines included; false: it can't be told.
func machineBusy() (time.Duration, bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	return readBusy(string(b))
}

// readBusy reads the first line of /proc/stat: user, nice, system, idle, iowait, irq,
// softirq, steal in hundredths of a second; guests count as user too.
func readBusy(stat string) (time.Duration, bool) {
	const tick, idle, iowait, last = 10 * time.Millisecond, 3, 4, 7
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < last+2 || fields[0] != "cpu" {
		return 0, false
	}
	var busy time.Duration
	for i, text := range fields[1 : last+2] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, false
		}
		if i != idle && i != iowait {
			busy += time.Duration(n) * tick
		}
	}
	return busy, true
}

// others puts what nobody of the bench has used of the machine's cores into a result,
// and says so where that spoils the figures.
func (e *env) others(r *Result, since, now spent, wall float64) {
	if since.machine == 0 || now.machine == 0 || len(e.plain) > 0 || e.cluster == nil { // commands are nobody's
		return
	}
	if _, killed := r.Value("kills"); killed { // and what the dead have used is not known
		return
	}
	own := now.servers - since.servers + now.workers - since.workers + now.load - since.load
	cores := max((now.machine-since.machine-own).Seconds()/wall, 0)
	r.set("cpu_cores_others", cores)
	if all := runtime.NumCPU(); cores > noisy*float64(all) {
		e.say("%s: the machine was busy with other work, %.1f of its %d cores: the figures are worse than on a quiet one", r.Scenario, cores, all)
	}
}
