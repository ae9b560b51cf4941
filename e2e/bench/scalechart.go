package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// growthChart draws the time a pod over the nodes, beside what linear growth
// from the smallest would be; both axes are logarithmic.
func growthChart(file string, sizes []grown) error {
	const left, width, height, top = 80, chartWidth - 300, 360, 60
	if len(sizes) < 2 {
		return nil
	}
	first, last := sizes[0], sizes[len(sizes)-1]
	lowest, highest := first.kernel, first.kernel*float64(last.nodes)/float64(first.nodes)
	for _, g := range sizes {
		highest = max(highest, g.kernel)
		for _, v := range []float64{g.kernel, g.decided.mean()} {
			if v > 0 {
				lowest = min(lowest, v)
			}
		}
	}
	x := func(nodes int) float64 {
		return left + width*math.Log(float64(nodes)/float64(first.nodes))/math.Log(float64(last.nodes)/float64(first.nodes))
	}
	y := func(us float64) float64 {
		return top + height*(1-math.Log(max(us, lowest)/lowest)/math.Log(highest/lowest))
	}
	var body strings.Builder
	for _, g := range sizes {
		fmt.Fprintf(&body, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\">%d</text>\n", x(g.nodes), x(g.nodes), top, top+height, x(g.nodes)-14, top+height+18, g.nodes)
	}
	for v := math.Pow(10, math.Ceil(math.Log10(lowest))); v <= highest; v *= 10 {
		fmt.Fprintf(&body, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"16\" y=\"%.1f\">%g us</text>\n", left, left+width, y(v), y(v), y(v)+4, v)
	}
	series := []struct {
		name, colour, dash string
		of                 func(grown) float64
	}{
		{"processor time of the kernel a pod", "#2a6fbb", "", func(g grown) float64 { return g.kernel }},
		{"time of a decision", "#c60", "", func(g grown) float64 { return g.decided.mean() }},
		{"linear growth of the first", "#999", "6 4", func(g grown) float64 { return first.kernel * float64(g.nodes) / float64(first.nodes) }},
	}
	for i, one := range series {
		var points []string
		for _, g := range sizes {
			if v := one.of(g); v > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(g.nodes), y(v)))
			}
		}
		if len(points) == 0 {
			continue
		}
		fmt.Fprintf(&body, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-dasharray=\"%s\" points=\"%s\"/>\n", one.colour, one.dash, strings.Join(points, " "))
		fmt.Fprintf(&body, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left+width+16, top+20+20*i, one.colour, html.EscapeString(one.name))
	}
	return writeChart(file, "Time a pod, from create to bound, by nodes of the cluster", top+height+40, body.String())
}
