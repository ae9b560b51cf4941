package plugincmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
)

const pluginLogsLong = `Print the records of a plugin, or of a bundle: what it wrote, and what the plugin
host says of it (its start, its failures, why it is not asked). The kernel keeps the
last 1,000 of each bundle, 256 KiB at most, since it was started; its own log has them
too, with plugin=BUNDLE. Records at debug level are there when logging.level is debug.

With a plugin's name, records that are about another plugin of its bundle are left out.

` + cli.ConnectHelp + `

Exit status: 0 done; 1 it failed; 2 wrong flags or arguments; 4 there is no such plugin.`

func newPluginLogsCommand() *cobra.Command {
	var connect cli.ConnectFlags
	var format string
	var follow bool
	var tail int
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print what a plugin wrote and what the host says of it",
		Long:  pluginLogsLong,
		Example: `  pintle plugin logs deployment --follow
  pintle plugin logs controllers --tail 20
  pintle plugin logs classic -o json | jq -r 'select(.level == "ERROR") | .message'`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := recordWriter(cmd.OutOrStdout(), format)
			if err != nil {
				return err
			}
			if tail < -1 {
				return cli.UsageFault(errors.New("--tail must be at least 0; -1 is all that are kept"))
			}
			cfg, err := connect.Config()
			if err != nil {
				return err
			}
			c, err := inspect.Dial(cfg)
			if err != nil {
				return err
			}
			query := url.Values{"tail": {strconv.Itoa(tail)}, "follow": {strconv.FormatBool(follow)}}
			lines, err := c.Stream(cmd.Context(), query, "plugins", args[0], "logs")
			if err != nil {
				return clusterCode("plugin logs", err)
			}
			defer lines.Close()
			for in := json.NewDecoder(lines); ; {
				var line json.RawMessage
				switch err := in.Decode(&line); {
				case errors.Is(err, io.EOF) || err != nil && cmd.Context().Err() != nil:
					return nil
				case err != nil:
					return fmt.Errorf("plugin logs: the kernel ended, or the way to it: %w", err)
				}
				if err := write(line); err != nil {
					return err
				}
			}
		},
	}
	connect.Register(cmd)
	cmd.ValidArgsFunction = connect.CompleteBoth
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table, wide, json (an object a line) or yaml")
	cli.CompleteFlag(cmd, "output", cli.OneOf("table", "wide", "json", "yaml"))
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on and print records as they come")
	cmd.Flags().IntVar(&tail, "tail", -1, "how many of the past records to print, the last; -1 is all")
	return cmd
}

// recordWriter prints records, which come as JSON.
func recordWriter(w io.Writer, format string) (func(line []byte) error, error) {
	switch format {
	case "json":
		return func(line []byte) error {
			_, err := fmt.Fprintf(w, "%s\n", line)
			return err
		}, nil
	case "yaml":
		return func(line []byte) error {
			text, err := yaml.JSONToYAML(line)
			if err == nil {
				_, err = fmt.Fprintf(w, "---\n%s", text)
			}
			return err
		}, nil
	case "table", "wide":
		return func(line []byte) error {
			var r plugin.LogRecord
			if err := json.Unmarshal(line, &r); err != nil {
				return fmt.Errorf("plugin logs: %w", err)
			}
			_, err := io.WriteString(w, recordText(&r, format == "wide"))
			return err
		}, nil
	}
	return nil, cli.UsageFault(fmt.Errorf("--output %q: want table, wide, json or yaml", format))
}

// recordText is a record for people, in one line.
func recordText(r *plugin.LogRecord, wide bool) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %-5s %-6s ", r.Time.Local().Format(time.RFC3339), r.Level, r.Source)
	if wide {
		fmt.Fprintf(&out, "%s ", r.Version)
	}
	out.WriteString(visible(r.Message, false))
	for _, key := range slices.Sorted(maps.Keys(r.Attributes)) {
		value := r.Attributes[key]
		text, ok := value.(string)
		if !ok {
			data, err := json.Marshal(value)
			if err != nil {
				continue
			}
			text = string(data)
		}
		fmt.Fprintf(&out, " %s=%s", visible(key, true), visible(text, ok))
	}
	out.WriteByte('\n')
	return out.String()
}

// visible quotes what a terminal would act upon and, in a value, what would
// not be told from the next.
func visible(text string, value bool) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		value && (text == "" || strings.ContainsAny(text, " =\"")) {
		return strconv.Quote(text)
	}
	return text
}
