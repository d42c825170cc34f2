package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
)

func TestReadBusy(t *testing.T) {
	got, ok := readBusy("cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if want := 1710 * time.Millisecond; !ok || got != want {
		t.Errorf("%s, %v, want %s", got, ok, want)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpux 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"} {
		if _, ok := readBusy(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

// A busy machine is told of with the figures; what the bench uses itself is not
// counted.
func TestABusyMachineIsTold(t *testing.T) {
	for cores, told := range map[time.Duration]bool{0: false, 64: true} {
		var out strings.Builder
		e := &env{console: newConsole(&out), cluster: &process.Cluster{}}
		r := newResult("ingest")
		begin := spent{machine: time.Hour}
		end := spent{machine: time.Hour + 10*time.Second*(3+cores), servers: 10 * time.Second, workers: 10 * time.Second, load: 10 * time.Second}
		e.others(r, begin, end, 10)
		if v, ok := r.Value("cpu_cores_others"); !ok || v != float64(cores) {
			t.Errorf("%g cores, want %d", v, cores)
		}
		if got := strings.Contains(out.String(), "busy with other work"); got != told {
			t.Errorf("with %d cores: %q", cores, out.String())
		}
	}
}
