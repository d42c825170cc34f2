package dag

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Measures of an SVG, in its units.
const (
	charWidth   = 7.2 // of the label's font, about
	boxPadding  = 12.0
	minBox      = 60.0
	maxBox      = 260.0 // wider names are cut; the tooltip has them whole
	boxHeight   = 34.0
	rowHeight   = 46.0
	rankGap     = 56.0 // between ranks, for the edges
	margin      = 16.0
	titleHeight = 26.0
)

const svgStyle = `
  .axd { font: 12px ui-monospace, monospace; --line: #8a94a6; --box: #ffffff; --ink: #1c2430; --edge: #8a94a6; }
  .axd rect { fill: var(--box); stroke: var(--line); }
  .axd text { fill: var(--ink); text-anchor: middle; }
  .axd text.title { text-anchor: start; font-weight: bold; }
  .axd text.note { font-size: 10px; opacity: .7; }
  .axd path.edge { fill: none; stroke: var(--edge); marker-end: url(#axd-arrow); }
  .axd marker path { fill: var(--edge); }
  .axd .success rect { stroke: #2e9e4f; } .axd .failed rect, .axd .timeout rect, .axd .upstream_failed rect { stroke: #d0342c; }
  .axd .running rect, .axd .dispatched rect { stroke: #2f6fde; stroke-width: 2; }
  .axd .skipped rect, .axd .cancelled rect { stroke-dasharray: 4 3; }
  .axd .workflow rect { stroke-width: 2; } .axd .schedule rect { stroke-dasharray: 2 2; }
  @media (prefers-color-scheme: dark) { .axd { --line: #6b7688; --box: #1c2430; --ink: #e6eaf0; --edge: #6b7688; } }
`

// SVG draws the groups, each laid out from left to right. It stands alone: no
// script, nothing that is loaded.
func (d *Drawing) SVG() string {
	var body strings.Builder
	width, y := 0.0, margin
	for i := range d.Groups {
		w, h := d.Groups[i].svg(&body, y)
		width, y = max(width, w), y+h
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"axd\" viewBox=\"0 0 %s %s\" width=\"%s\" height=\"%s\" role=\"img\">\n",
		num(width), num(y), num(width), num(y))
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", text(d.Title), svgStyle)
	b.WriteString(`<defs><marker id="axd-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">` +
		"<path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n")
	b.WriteString(body.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// svg draws a group below y, and returns how wide and how high it is.
func (g *Group) svg(b *strings.Builder, y float64) (width, height float64) {
	top := y
	if g.Title != "" {
		fmt.Fprintf(b, "<text class=\"title\" x=\"%s\" y=\"%s\">%s</text>\n", num(margin), num(y+14), text(g.Title))
		y += titleHeight
	}
	l := Lay(g.Graph)
	left, boxes := g.columns(l)
	row := func(p Point) float64 { return y + p.Row*rowHeight + boxHeight/2 }
	for _, line := range l.Edges {
		from, to := l.Nodes[line.From], l.Nodes[line.To]
		path := curve{x: left[from.Rank] + boxes[from.Rank], y: row(from)}
		fmt.Fprintf(&path.d, "M%s %s", num(path.x), num(path.y))
		for _, p := range line.Via {
			path.to(left[p.Rank], row(p))
			path.straight(left[p.Rank]+boxes[p.Rank], row(p))
		}
		path.to(left[to.Rank], row(to))
		b.WriteString(`<path class="edge" d="` + path.d.String() + "\"/>\n")
	}
	for i, p := range l.Nodes {
		g.box(b, i, left[p.Rank], row(p), boxes[p.Rank])
	}
	last := len(left) - 1
	return left[last], y - top + l.Rows*rowHeight + margin
}

// columns returns where each rank begins and how wide its boxes are; one more
// beginning is the end of the drawing.
func (g *Group) columns(l *Layout) (left, boxes []float64) {
	boxes = make([]float64, l.Ranks)
	for i, p := range l.Nodes {
		letters := max(utf8.RuneCountInString(g.Nodes[i].Name), utf8.RuneCountInString(g.Nodes[i].Note)*5/6)
		boxes[p.Rank] = max(boxes[p.Rank], min(maxBox, max(minBox, float64(letters)*charWidth+2*boxPadding)))
	}
	at := margin
	for _, w := range boxes {
		left = append(left, at)
		at += w + rankGap
	}
	return append(left, max(margin, at-rankGap)+margin), boxes
}

func (g *Group) box(b *strings.Builder, i int, x, y, width float64) {
	n := g.Nodes[i]
	fmt.Fprintf(b, "<g class=\"%s\"><title>%s</title><rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" rx=\"6\"/>",
		text(strings.TrimSpace("node "+n.Class)), text(strings.TrimSpace(n.Name+"\n"+n.Note)),
		num(x), num(y-boxHeight/2), num(width), num(boxHeight))
	line := y + 4
	if n.Note != "" {
		line = y - 2
		fmt.Fprintf(b, "<text class=\"note\" x=\"%s\" y=\"%s\">%s</text>", num(x+width/2), num(y+11), text(cut(n.Note, width*6/5)))
	}
	fmt.Fprintf(b, "<text x=\"%s\" y=\"%s\">%s</text></g>\n", num(x+width/2), num(line), text(cut(n.Name, width)))
}

// cut shortens a text to what fits a box.
func cut(s string, width float64) string {
	fits := int((width-boxPadding)/charWidth) + 1
	if utf8.RuneCountInString(s) <= fits {
		return s
	}
	return string([]rune(s)[:fits-1]) + "…"
}

// curve is a path that leaves and reaches every place levelly.
type curve struct {
	d    strings.Builder
	x, y float64
}

func (c *curve) to(x, y float64) {
	mid := (c.x + x) / 2
	fmt.Fprintf(&c.d, "C%s %s %s %s %s %s", num(mid), num(c.y), num(mid), num(y), num(x), num(y))
	c.x, c.y = x, y
}

func (c *curve) straight(x, y float64) {
	fmt.Fprintf(&c.d, "L%s %s", num(x), num(y))
	c.x, c.y = x, y
}

func num(f float64) string { return fmt.Sprintf("%d", int(math.Round(f))) }

// text escapes a text; what XML can't hold becomes U+FFFD.
func text(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}
