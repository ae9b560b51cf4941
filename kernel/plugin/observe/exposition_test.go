package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
)

// TestReadExposition: what a bundle says is bounded and cannot pass for another's.
func TestReadExposition(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"counter", "# TYPE a counter\na{x=\"1\"} 2 1234\n", `a{plugin="p",x="1"} 2`},
		{"untyped", "a 2\n", `a{plugin="p"} 2`},
		{"label of another", "a{plugin=\"q\"} 2\n", `a{exported_plugin="q",plugin="p"} 2`},
		{"histogram", "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 3\na_count 2\n", `a_bucket{plugin="p",le="1"} 1`},
		{"nothing", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			families, err := ReadExposition([]byte(test.in), "p")
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, f := range families {
				if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(text.String(), test.want) {
				t.Errorf("%s\nlacks %s", &text, test.want)
			}
		})
	}
	for name, in := range map[string]string{
		"no text":    "\x00\x01",
		"cut":        "a{x=\"1\n",
		"the host's": "pintle_plugin_calls_total 5\n",
		"bytes":      strings.Repeat("#", MaxExposition+1),
		"lines":      strings.Repeat("a 1\n", maxExpositionLines+1),
		"labels":     strings.Repeat("a{b=\"c\"} 1\n", 10) + strings.Repeat("=", maxExpositionLabels),
		"one series": "a{" + strings.Repeat("b=\"c\",", maxSeriesLabels+1) + "} 1\n",
	} {
		if _, err := ReadExposition([]byte(in), "p"); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzReadExposition(f *testing.F) {
	f.Add([]byte("# HELP a h\n# TYPE a summary\na{quantile=\"0.5\"} 1\na_sum 2\na_count 3\n"))
	f.Add([]byte("# TYPE a histogram\na_bucket{le=\"+Inf\"} NaN\na{plugin=\"q\",exported_plugin=\"r\"} -Inf 5\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		families, _ := ReadExposition(data, "p") // beside an error are those that it is not about
		for _, family := range families {
			for _, m := range family.Metric {
				named := 0
				for _, l := range m.Label {
					if l.GetName() == pluginLabel && l.GetValue() == "p" {
						named++
					}
				}
				if named != 1 {
					t.Errorf("%q: %v", data, m)
				}
			}
		}
	})
}

// TestOneBadMetric: what cannot be taken is left out, and nothing else.
func TestOneBadMetric(t *testing.T) {
	const good = "# HELP good h\n# TYPE good counter\ngood{x=\"1\"} 2\n# TYPE times histogram\ntimes_bucket{le=\"+Inf\"} 2\ntimes_sum 3\ntimes_count 2\n"
	for name, test := range map[string]struct{ bad, want string }{
		"a dash in the name":     {"# TYPE my-metric counter\nmy-metric 1\n", "my-metric"},
		"a dot in the name":      {"my.metric{a=\"b\"} 1\n", "my.metric"},
		"the kernel's name":      {"pintle_plugin_calls_total 5\n", "pintle_plugin_calls_total: names that begin with pintle_ are the kernel's"},
		"no number":              {"# TYPE odd gauge\nodd one\n", "odd"},
		"a label without an end": {"odd{a=\"b} 1\n", "odd"},
		"too many labels":        {"odd{" + strings.Repeat("b=\"c\",", maxSeriesLabels+1) + "} 1\n", "odd"},
	} {
		for place, in := range map[string]string{"before": test.bad + good, "behind": good + test.bad} {
			families, err := ReadExposition([]byte(in), "p")
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v, want one line with %s", name, place, err, test.want)
			}
			var names []string
			for _, f := range families {
				names = append(names, f.GetName())
			}
			if want := []string{"good", "times"}; !slices.Equal(names, want) {
				t.Errorf("%s, %s: %q are left, want %q", name, place, names, want)
			}
		}
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "bad!%d 1\n", i)
	}
	if _, err := ReadExposition([]byte(many.String()), "p"); err == nil || len(err.Error()) > 2000 || !strings.Contains(err.Error(), "and 995 more") {
		t.Errorf("a thousand faults: %v", err)
	}
}
