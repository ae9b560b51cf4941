package plugincmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
)

// Every command of plugins that prints what it found or did takes --output with
// the same four forms, and refuses another one (issue 5).
func TestPluginCommandsTakeEveryOutput(t *testing.T) {
	want := strings.Fields("list describe install verify enable disable upgrade rollback logs bench shadow diff remove gc build test package")
	arguments := map[string][]string{"shadow": {"x", "--off"}, "list": nil, "gc": nil}
	for _, name := range want {
		plugin := New()
		i := slices.IndexFunc(plugin.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			t.Errorf("no command plugin %s", name)
			continue
		}
		flag := plugin.Commands()[i].Flags().Lookup("output")
		if flag == nil {
			t.Errorf("plugin %s has no --output", name)
			continue
		}
		for _, form := range []string{"table", "wide", "json", "yaml"} {
			if !strings.Contains(flag.Usage, form) {
				t.Errorf("plugin %s: --output is %q, without %s", name, flag.Usage, form)
			}
			if err := (&cli.OutputFlag{Format: form}).Check(); err != nil {
				t.Error(err)
			}
		}
		args, other := arguments[name]
		if !other {
			args = []string{"x"}
		}
		plugin.SetArgs(append([]string{name, "--output", "xml"}, args...))
		plugin.SilenceErrors, plugin.SilenceUsage = true, true
		if err := plugin.Execute(); err == nil || !strings.Contains(err.Error(), `--output "xml": want table, wide, json or yaml`) {
			t.Errorf("plugin %s --output xml: %v", name, err)
		}
	}
	names := map[string]bool{}
	for _, c := range New().Commands() {
		if names[c.Name()] {
			t.Errorf("plugin %s is there twice", c.Name())
		}
		names[c.Name()] = true
	}
}
