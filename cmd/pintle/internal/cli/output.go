package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// OutputFlag is --output. Wide is a table with more columns, where there are more.
type OutputFlag struct{ Format string }

// Register adds the flag to cmd, with standard as the form when it is not given.
func (o *OutputFlag) Register(cmd *cobra.Command, standard string) {
	cmd.Flags().StringVarP(&o.Format, "output", "o", standard, "table, wide, json or yaml")
	CompleteFlag(cmd, "output", OneOf("table", "wide", "json", "yaml"))
}

// Wide reports whether the output is a table with more columns.
func (o *OutputFlag) Wide() bool { return o.Format == "wide" }

// People reports whether the output is a table, for people.
func (o *OutputFlag) People() bool { return o.Format == "table" || o.Format == "wide" }

// Print writes v as JSON or YAML, or calls table for the form that people read.
func (o *OutputFlag) Print(w io.Writer, v any, table func(w io.Writer)) error {
	switch o.Format {
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

// Check refuses a form that there is not; the error is a UsageError.
func (o *OutputFlag) Check() error {
	switch o.Format {
	case "table", "wide", "json", "yaml":
		return nil
	}
	return UsageFault(fmt.Errorf("--output %q: want table, wide, json or yaml", o.Format))
}

// Row writes cells of a table.
func Row(w io.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	fmt.Fprintln(w, strings.Join(text, "\t"))
}

// BytesText is a size for people.
func BytesText[N int64 | uint64](n N) string {
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

// When is a time for people.
func When(t time.Time) string { return t.Local().Format(time.DateTime) }
