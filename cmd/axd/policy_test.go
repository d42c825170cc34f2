package main

import "testing"

func TestSizeFlag(t *testing.T) {
	for text, want := range map[string]int64{
		"65536": 65536, "64KiB": 64 << 10, "64MiB": 64 << 20, "1GiB": 1 << 30, "8388607TiB": 8388607 << 40,
		"1": -1, "12": -1, "4096": -1, "63KiB": -1, "": -1, "0": -1, "-1": -1, "1.5GiB": -1, "64MB": -1, "64M": -1, "MiB": -1, "8388608TiB": -1, "9223372036854775808": -1,
	} {
		var s sizeFlag
		err := s.Set(text)
		if want < 0 && err == nil || want > 0 && (err != nil || int64(s) != want) {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
}
