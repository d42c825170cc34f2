package trial

import (
	_ "embed"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files of a report's directory.
const (
	jsonFile  = "report.json"
	junitFile = "junit.xml"
	htmlFile  = "timeline.html"
)

// Write writes the report into a directory, which is made.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{jsonFile: r.JSON, junitFile: r.JUnit, htmlFile: r.HTML} {
		if err := writeFile(filepath.Join(dir, name), write); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return write(f)
}

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		*Report
		Verdict Verdict `json:"verdict"`
	}{r, r.Verdict()})
}

type junitSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suite   junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Error   *junitText `xml:"error,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
	Out     string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func textOf(lines []string) *junitText {
	if len(lines) == 0 {
		return &junitText{}
	}
	first, _, _ := strings.Cut(lines[0], "\n")
	return &junitText{Message: first, Text: strings.Join(lines, "\n")}
}

// JUnit writes the report as CI systems read it: a violation is a failure, what could
// not be tested an error.
func (r *Report) JUnit(w io.Writer) error {
	s := junitSuite{Name: "axd chaos", Tests: len(r.Results), Time: seconds(r.Ended.Sub(r.Began)), Stamp: r.Began.UTC().Format("2006-01-02T15:04:05")}
	for _, res := range r.Results {
		c := junitCase{Name: res.Scenario, Class: "axd.chaos." + res.Group, Time: seconds(res.Ended.Sub(res.Began)), Out: res.line()}
		switch res.Verdict {
		case Violated:
			s.Failures++
			c.Failure = textOf(res.Violations)
		case Untested:
			s.Errors++
			c.Error = textOf(res.Doubts)
		case Skipped:
			s.Skipped++
			c.Skipped = textOf(res.Doubts)
		case Held:
		}
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(junitSuites{Suite: s}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

//go:embed timeline.html
var timelinePage string

// The timeline's width and heights, in pixels of its drawing.
const (
	pageWidth  = 1000.0
	lateHeight = 60.0
)

// HTML writes a page that draws what happened when. It needs nothing but itself.
func (r *Report) HTML(w io.Writer) error {
	page, err := template.New(htmlFile).Parse(timelinePage)
	if err != nil {
		return err
	}
	type view struct {
		*Report
		Verdict Verdict
		Lines   []timeline
	}
	v := view{Report: r, Verdict: r.Verdict()}
	for _, res := range r.Results {
		v.Lines = append(v.Lines, res.timeline())
	}
	return page.Execute(w, v)
}

// timeline is one scenario as the page draws it. All places are in its drawing's
// pixels.
type timeline struct {
	*Result
	Seconds float64
	Width   float64
	Ticks   []tick
	Bars    []bar // faults
	Led     []bar
	Silent  []bar // no writes accepted
	Dots    []dot // lateness
	LateMax string
}

type tick struct {
	X    float64
	Text string
}

type bar struct {
	X, W  float64
	Text  string
	Class string
}

type dot struct {
	X, Y  float64
	Class string
}

func (r *Result) timeline() timeline {
	length := max(r.Ended.Sub(r.Began).Seconds(), 1)
	t := timeline{Result: r, Seconds: length, Width: pageWidth}
	x := func(at time.Time) float64 { return min(max(at.Sub(r.Began).Seconds()/length*pageWidth, 0), pageWidth) }
	span := func(from, until time.Time, text, class string) bar {
		if until.IsZero() {
			until = r.Ended
		}
		return bar{X: x(from), W: max(x(until)-x(from), 2), Text: text, Class: class}
	}
	step := 1.0
	for length/step > 15 {
		step *= 2
	}
	for s := 0.0; s <= length; s += step {
		t.Ticks = append(t.Ticks, tick{X: s / length * pageWidth, Text: fmt.Sprintf("%gs", s)})
	}
	for _, f := range r.Faults {
		t.Bars = append(t.Bars, span(f.From, f.Until, fmt.Sprintf("%s; writes accepted again after %s; %s", f.Text, f.Recovery.Round(time.Millisecond), f.Acted), "fault"))
	}
	for i, l := range r.Leaders {
		until := r.Ended
		if i+1 < len(r.Leaders) {
			until = r.Leaders[i+1].At
		}
		t.Led = append(t.Led, span(l.At, until, fmt.Sprintf("%s leads in term %d", l.Leader, l.Term), "leader"+fmt.Sprint(i%2)))
	}
	for _, g := range r.Gaps {
		t.Silent = append(t.Silent, span(g.From, g.Until, "no write accepted for "+g.Until.Sub(g.From).Round(time.Millisecond).String(), "silent"))
	}
	most := 1.0
	for _, l := range r.Lateness {
		most = max(most, l.MS)
	}
	t.LateMax = fmt.Sprintf("%.0f ms", most)
	for _, l := range r.Lateness {
		class := "late"
		if l.Quiet {
			class = "quiet"
		}
		t.Dots = append(t.Dots, dot{X: x(l.At), Y: lateHeight - max(l.MS, 0)/most*lateHeight, Class: class})
	}
	return t
}
