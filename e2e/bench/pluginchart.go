package main

import (
	"fmt"
	"html"
	"strings"
)

// goalChart draws each figure that has a goal as a bar beside a line where the
// goal is; a bar that would be longer than twice that is cut.
func goalChart(file, title string, figures []figure) error {
	const goal = chartBar / 2
	var body strings.Builder
	y := 48
	for _, f := range figures {
		want, value, unit := max(f.AtMost, f.AtLeast), f.Value, f.Unit
		if want == 0 {
			continue
		}
		if f.Peer != nil {
			value, unit = f.Peer.Ratio, "x"
		}
		word, colour := "missed", "#b00"
		if f.Reached != nil && *f.Reached {
			word, colour = "reached", "#070"
		}
		least := ""
		if f.AtLeast > 0 {
			least = "at least "
		}
		fmt.Fprintf(&body, "<text x=\"16\" y=\"%d\">%s</text>\n", y+14, html.EscapeString(f.Name))
		fmt.Fprintf(&body, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"16\" fill=\"%s\"/>\n", chartLeft, y+2, min(chartBar, max(1, value/want*goal)), colour)
		fmt.Fprintf(&body, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%.3g of %s%g %s, %s</text>\n", chartLeft+chartBar+8, y+14, colour, value, least, want, html.EscapeString(unit), word)
		y += 28
	}
	fmt.Fprintf(&body, "<line x1=\"%d\" x2=\"%d\" y1=\"40\" y2=\"%d\" stroke=\"#333\"/>\n", chartLeft+goal, chartLeft+goal, y)
	return writeChart(file, title, y+16, body.String())
}
