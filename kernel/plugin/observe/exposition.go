package observe

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"
)

// Bounds of what one bundle may tell of itself.
const (
	MaxExposition       = 1 << 20 // bytes
	maxExpositionLines  = 20_000
	maxExpositionLabels = 60_000
	maxSeriesLabels     = 30
	// maxFaults of one bundle are named; the others are counted.
	maxFaults = 5
)

// pluginLabel names the bundle in metrics of its own; a label of that name which
// it has itself becomes exportedLabel, as Prometheus does it.
const (
	pluginLabel   = "plugin"
	exportedLabel = "exported_plugin"
)

// ReadExposition reads Prometheus' text format and puts the plugin's name to each series. A
// metric that cannot be taken is left out, and the error, of one line, says which those are;
// the others are returned beside it. Text beyond the bounds is left out altogether.
func ReadExposition(data []byte, plugin string) ([]*dto.MetricFamily, error) {
	switch {
	case len(data) > MaxExposition:
		return nil, fmt.Errorf("%d bytes; want at most %d", len(data), MaxExposition)
	case bytes.Count(data, []byte{'\n'}) > maxExpositionLines:
		return nil, fmt.Errorf("more than %d lines", maxExpositionLines)
	case bytes.Count(data, []byte{'='}) > maxExpositionLabels:
		return nil, fmt.Errorf("more than %d labels", maxExpositionLabels)
	}
	byName, faults := parse(data)
	var families []*dto.MetricFamily
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		f := byName[name]
		if err := check(f); err != nil {
			faults = append(faults, err)
			continue
		}
		for _, m := range f.Metric {
			label(m, plugin)
		}
		families = append(families, f)
	}
	return families, oneLine(faults)
}

// check says what is wrong with a metric, or nil.
func check(f *dto.MetricFamily) error {
	if strings.HasPrefix(f.GetName(), "pintle_") {
		return fmt.Errorf("%s: names that begin with pintle_ are the kernel's", f.GetName())
	}
	for _, m := range f.Metric {
		if len(m.Label) > maxSeriesLabels {
			return fmt.Errorf("%s: more than %d labels", f.GetName(), maxSeriesLabels)
		}
	}
	return nil
}

// label puts the plugin's name to a series.
func label(m *dto.Metric, plugin string) {
	m.TimestampMs = nil
	for _, l := range m.Label {
		if l.GetName() == pluginLabel {
			l.Name = proto.String(exportedLabel)
		}
	}
	m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(pluginLabel), Value: proto.String(plugin)})
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
}

// parse reads the whole text or, where that cannot be, each metric of it by itself.
func parse(data []byte) (map[string]*dto.MetricFamily, []error) {
	all, err := parseText(data)
	if err == nil {
		return all, nil
	}
	all = map[string]*dto.MetricFamily{}
	var faults []error
	for _, part := range metricsOf(data) {
		families, err := parseText(part.text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%.100q: %w", part.name, err))
			continue
		}
		for name, f := range families {
			if all[name] != nil {
				faults = append(faults, fmt.Errorf("%s is there twice", name))
				continue
			}
			all[name] = f
		}
	}
	return all, faults
}

func parseText(data []byte) (families map[string]*dto.MetricFamily, err error) {
	defer func() {
		if p := recover(); p != nil { // the parser is not ours
			families, err = nil, fmt.Errorf("cannot be read: %v", p)
		}
	}()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err = parser.TextToMetricFamilies(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("not in Prometheus' text format: %w", err)
	}
	return families, nil
}

// metricText is the lines of one metric, with its HELP and TYPE.
type metricText struct {
	name string
	text []byte
}

// metricsOf cuts a text into its metrics. A series belongs to the metric before it whose name
// its own begins with, as those of a histogram do.
func metricsOf(data []byte) []metricText {
	var all []metricText
	for line := range bytes.Lines(data) {
		name, declares := nameIn(line)
		if last := len(all) - 1; last >= 0 && (name == "" || name == all[last].name || !declares && strings.HasPrefix(name, all[last].name+"_")) {
			all[last].text = append(all[last].text, line...)
			continue
		}
		all = append(all, metricText{name, bytes.Clone(line)})
	}
	return all
}

// nameIn is the name of the metric that a line is about, or "", and whether the line is its
// HELP or TYPE.
func nameIn(line []byte) (name string, declares bool) {
	text := strings.TrimSpace(string(line))
	if rest, comment := strings.CutPrefix(text, "#"); comment {
		words := strings.Fields(rest)
		if len(words) < 2 || words[0] != "HELP" && words[0] != "TYPE" {
			return "", false
		}
		return words[1], true
	}
	if end := strings.IndexAny(text, "{ \t"); end >= 0 {
		text = text[:end]
	}
	return text, false
}

// oneLine joins faults; nil where there are none.
func oneLine(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	var words []string
	for _, err := range faults[:min(len(faults), maxFaults)] {
		words = append(words, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if more := len(faults) - maxFaults; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return errors.New(strings.Join(words, "; "))
}
