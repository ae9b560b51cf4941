package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// outputFlag is --output. Wide is a table with more columns, where there are more.
type outputFlag struct{ format string }

func (o *outputFlag) register(cmd *cobra.Command, standard string) {
	cmd.Flags().StringVarP(&o.format, "output", "o", standard, "table, wide, json or yaml")
	completeFlag(cmd, "output", oneOf("table", "wide", "json", "yaml"))
}

func (o *outputFlag) wide() bool { return o.format == "wide" }

// people reports whether the output is a table, for people.
func (o *outputFlag) people() bool { return o.format == "table" || o.format == "wide" }

// print writes v as JSON or YAML, or calls table for the form that people read.
func (o *outputFlag) print(w io.Writer, v any, table func(w io.Writer)) error {
	switch o.format {
	case "json":
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(v)
	case "yaml":
		b, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	table(t)
	return t.Flush()
}

func (o *outputFlag) check() error {
	switch o.format {
	case "table", "wide", "json", "yaml":
		return nil
	}
	return usageError{fmt.Errorf("--output %q: want table, wide, json or yaml", o.format)}
}

// row writes cells of a table.
func row(w io.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	fmt.Fprintln(w, strings.Join(text, "\t"))
}

// bytesText is a size for people.
func bytesText[N int64 | uint64](n N) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}
