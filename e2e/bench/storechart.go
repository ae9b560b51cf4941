package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// Sizes of the chart, in pixels.
const (
	chartWidth = 960
	chartLeft  = 400 // where bars begin
	chartBar   = 360 // the longest
	chartRow   = 44
	plotHeight = 220
)

// chart draws the figures as pairs of bars, and the soak as lines below.
func (b *storeBench) chart() error {
	var rows []figure
	for _, f := range b.figures {
		if f.Peer != nil {
			rows = append(rows, f)
		}
	}
	return pairChart(filepath.Join(b.o.out, "store.svg"), "Pintle (blue) and etcd or kube-apiserver (grey), one run, medians", rows, b.soak...)
}

// pairChart draws figures that have a peer as pairs of bars.
func pairChart(file, title string, rows []figure, soak ...sample) error {
	height := 50 + chartRow*len(rows)
	var body strings.Builder
	for i, f := range rows {
		bars(&body, 40+chartRow*i, f)
	}
	if len(soak) > 1 {
		lines(&body, height+20, soak)
		height += plotHeight + 80
	}
	return writeChart(file, title, height, body.String())
}

// writeChart puts a frame and a title around what was drawn.
func writeChart(file, title string, height int, body string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
<text x="16" y="24" font-size="15">%s</text>
%s</svg>
`, chartWidth, height, html.EscapeString(title), body)
	return os.WriteFile(file, []byte(text), 0o644)
}

func bars(w *strings.Builder, y int, f figure) {
	longest := max(f.Value, f.Peer.Value)
	word, colour := "", "#333"
	if f.Reached != nil {
		if word, colour = "missed", "#b00"; *f.Reached {
			word, colour = "reached", "#070"
		}
	}
	fmt.Fprintf(w, "<text x=\"16\" y=\"%d\">%s</text>\n", y+20, html.EscapeString(strings.TrimSpace(f.Name)))
	for i, side := range []struct {
		value  float64
		colour string
		name   string
	}{{f.Value, "#2a6fbb", "Pintle"}, {f.Peer.Value, "#999", f.Peer.Name}} {
		length := 0.0
		if longest > 0 {
			length = max(1, side.value/longest*chartBar)
		}
		fmt.Fprintf(w, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"14\" fill=\"%s\"><title>%s</title></rect>\n", chartLeft, y+4+16*i, length, side.colour, html.EscapeString(side.name))
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\">%.4g %s</text>\n", chartLeft+length+6, y+15+16*i, side.value, html.EscapeString(f.Unit))
	}
	fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%.2fx %s</text>\n", chartWidth-104, y+20, colour, f.Peer.Ratio, word)
}

// lines draws disk and memory over time, on one scale.
func lines(w *strings.Builder, y int, samples []sample) {
	series := []struct {
		name, colour string
		of           func(sample) float64
	}{
		{"disk, MB", "#2a6fbb", func(s sample) float64 { return s.Disk }},
		{"resident memory, MB", "#c60", func(s sample) float64 { return s.RSS }},
		{"of it anonymous, MB", "#999", func(s sample) float64 { return s.Anonymous }},
	}
	top, last := 0.0, samples[len(samples)-1]
	for _, s := range samples {
		top = max(top, s.Disk, s.RSS)
	}
	fmt.Fprintf(w, "<text x=\"16\" y=\"%d\" font-size=\"15\">Steady rewriting: %d rewrites of 1 KB in %.0f s</text>\n", y, last.Rewrites, last.Seconds)
	const left, width = 60, chartWidth - 260
	base := y + 20 + plotHeight
	for i := range 5 {
		at := float64(i) / 4
		fmt.Fprintf(w, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"16\" y=\"%.1f\">%.0f</text>\n",
			left, left+width, float64(base)-at*plotHeight, float64(base)-at*plotHeight, float64(base)-at*plotHeight+4, at*top)
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%d\">%.0f s</text>\n", left+at*width-10, base+18, at*last.Seconds)
	}
	for i, one := range series {
		var points []string
		for _, s := range samples {
			points = append(points, fmt.Sprintf("%.1f,%.1f", left+s.Seconds/last.Seconds*width, float64(base)-one.of(s)/top*plotHeight))
		}
		fmt.Fprintf(w, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"%s\"/>\n", one.colour, strings.Join(points, " "))
		fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left+width+16, y+40+20*i, one.colour, one.name)
	}
}
