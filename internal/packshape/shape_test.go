package packshape

import "testing"

func TestShapeIsCheckedBeforeMemoryIsTaken(t *testing.T) {
	deep := make([]byte, maxDepth+2)
	for i := range deep {
		deep[i] = 0x91
	}
	wide := append([]byte{0xdd, 0, 2, 0, 0}, make([]byte, 1<<17)...)
	for name, b := range map[string][]byte{
		"empty":             {},
		"array of billions": {0xdd, 0xff, 0xff, 0xff, 0xff},
		"map of billions":   {0xdf, 0xff, 0xff, 0xff, 0xff},
		"string cut short":  {0xd9, 5, 'a'},
		"header cut short":  {0xdd, 0},
		"two values":        {1, 2},
		"extension":         {0xd4, 1, 1},
		"never used":        {0xc1},
		"too deep":          append(deep, 1),
		"too wide":          wide,
	} {
		if err := Check(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := Check([]byte{0x92, 0x81, 0xa1, 'a', 0xc0, 0xcb, 1, 2, 3, 4, 5, 6, 7, 8}); err != nil {
		t.Error(err)
	}
}
