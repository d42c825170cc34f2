package job

import "testing"

// TestRules says what each rule makes of each mix of two needs: the letters stand
// for success, failed, skipped, upstream_failed and not ended.
func TestRules(t *testing.T) {
	const begin, wait, skip, fail = DecideBegin, DecideWait, DecideSkip, DecideFail
	mixes := []string{"SS", "SF", "SK", "SU", "S.", "FF", "FK", "FU", "F.", "KK", "KU", "K.", "UU", "U.", ".."}
	for rule, want := range map[Rule][]Decision{
		//                    SS     SF     SK     SU     S.     FF     FK     FU     F.     KK     KU     K.     UU     U.     ..
		AllSuccess:           {begin, fail, skip, fail, wait, fail, fail, fail, wait, skip, fail, wait, fail, wait, wait},
		"":                   {begin, fail, skip, fail, wait, fail, fail, fail, wait, skip, fail, wait, fail, wait, wait},
		AllDone:              {begin, begin, begin, begin, wait, begin, begin, begin, wait, begin, begin, wait, begin, wait, wait},
		AllFailed:            {skip, skip, skip, skip, wait, begin, skip, begin, wait, skip, skip, wait, begin, wait, wait},
		OneSuccess:           {begin, begin, begin, begin, begin, fail, fail, fail, wait, skip, fail, wait, fail, wait, wait},
		OneFailed:            {skip, begin, skip, begin, wait, begin, begin, begin, begin, skip, begin, wait, begin, begin, wait},
		OneDone:              {begin, begin, begin, begin, begin, begin, begin, begin, begin, skip, fail, wait, fail, wait, wait},
		NoneFailed:           {begin, fail, begin, fail, wait, fail, fail, fail, wait, begin, fail, wait, fail, wait, wait},
		NoneFailedMinSuccess: {begin, fail, begin, fail, wait, fail, fail, fail, wait, skip, fail, wait, fail, wait, wait},
		Always:               {begin, begin, begin, begin, begin, begin, begin, begin, begin, begin, begin, begin, begin, begin, begin},
	} {
		for i, mix := range mixes {
			n := Needs{Total: 2}
			for _, c := range mix {
				switch c {
				case 'S':
					n.Success++
				case 'F':
					n.Failed++
				case 'K':
					n.Skipped++
				case 'U':
					n.Upstream++
				}
			}
			if got := rule.Decide(n); got != want[i] {
				t.Errorf("%s of %s: %v, want %v", rule, mix, got, want[i])
			}
		}
		if rule.Decide(Needs{}) != DecideBegin {
			t.Errorf("%s without needs does not begin", rule)
		}
	}
}
