package examples

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestVideo(t *testing.T) {
	for _, tool := range []string{"ffmpeg", "ffprobe"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("SKIPPED: the video pipeline needs ffmpeg and ffprobe in PATH:", err)
		}
	}
	p := start(t, "video")
	run := p.must("run", "start", "video", "--wait")
	shown := p.show(run)
	for _, step := range []string{"record", "transcode-240", "transcode-120", "snapshots", "review", "distribute"} {
		has(t, shown, step, "success")
	}
	check := exec.Command("sha256sum", "--check", "--quiet", "SHA256SUMS")
	check.Dir = filepath.Join(p.work, "dist")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if n := strings.Count(p.file("dist/SHA256SUMS"), "\n"); n != 6 {
		t.Errorf("%d files are distributed, want two sizes and four snapshots", n)
	}
}
