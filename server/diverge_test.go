package server

import (
	"log/slog"
	"testing"
)

func TestAServerEndsOnlyWhenTwoOthersAgreeAgainstIt(t *testing.T) {
	s := &Server{log: slog.New(slog.DiscardHandler)}
	for _, tc := range []struct {
		name   string
		others map[string]uint64
		ends   bool
	}{
		{"all equal", map[string]uint64{"s2": 7, "s3": 7}, false},
		{"one other differs", map[string]uint64{"s2": 7, "s3": 9}, false},
		{"only one other answers, and differs", map[string]uint64{"s2": 9}, false},
		{"two differ from each other too", map[string]uint64{"s2": 8, "s3": 9}, false},
		{"two agree against this one", map[string]uint64{"s2": 9, "s3": 9}, true},
		{"two of four do, but two agree with it", map[string]uint64{"s2": 9, "s3": 9, "s4": 7, "s5": 7}, false},
		{"three of four agree against this one", map[string]uint64{"s2": 9, "s3": 9, "s4": 9, "s5": 7}, true},
	} {
		if err := s.judge(100, 7, tc.others); (err != nil) != tc.ends {
			t.Errorf("%s: got %v, want an end: %v", tc.name, err, tc.ends)
		}
	}
}
