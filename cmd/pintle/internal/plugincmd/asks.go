package plugincmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/plugin/manifest"
)

// consent asks an operator for what a package asks for.
type consent struct {
	yes bool
	in  io.Reader
	out io.Writer
	// asks: there is somebody to answer.
	asks bool
}

// newConsent asks on the terminal, where there is one that the source leaves free.
func newConsent(cmd *cobra.Command, source string, yes bool) *consent {
	in := cmd.InOrStdin()
	f, ok := in.(*os.File)
	return &consent{yes: yes, in: in, out: cmd.ErrOrStderr(), asks: ok && source != catalog.Standard && term.IsTerminal(int(f.Fd()))}
}

// confirm implements catalog.InstallOptions.Confirm. What the version in use has
// already is shown and not asked for again.
func (c *consent) confirm(a *catalog.Asked) error {
	wanted := newRights(a.Manifest, a.Current)
	if len(wanted) == 0 {
		return nil
	}
	title := "asks for"
	if a.Current != nil {
		title = fmt.Sprintf("asks for what version %s, which is in use, does not", a.Current.Version)
	}
	name := fmt.Sprintf("plugin bundle %s %s", a.Manifest.Name, a.Manifest.Version)
	fmt.Fprintf(c.out, "%s (%s) %s:\n", name, signedBy(a.Signature), title)
	for _, line := range wanted {
		fmt.Fprintf(c.out, "  %s\n", line)
	}
	switch {
	case c.yes:
		return nil
	case !c.asks:
		return fmt.Errorf("%w: %s %s the above, and nobody is there to say yes; look at it with pintle plugin inspect, and say --yes", catalog.ErrOperator, name, title)
	}
	fmt.Fprint(c.out, "Install it? [y/N] ")
	answer, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
		return fmt.Errorf("%w: %s was not agreed to", catalog.ErrOperator, name)
	}
	return nil
}

// newRights are what a bundle asks for and another does not.
func newRights(m, than *manifest.Manifest) []string {
	asks := m.Asks()
	if than == nil {
		return asks
	}
	had := than.Asks()
	return slices.DeleteFunc(asks, func(line string) bool { return slices.Contains(had, line) })
}

// inspection is what pintle plugin inspect says of a package.
type inspection struct {
	*catalog.Installed
	Kinds   map[string]string `json:"kinds"`
	Asks    []string          `json:"asks"`
	Changes []string          `json:"changes,omitempty"`
	// Current is the version that the changes are against.
	Current string `json:"current,omitempty"`
}

func newPluginInspectCommand() *cobra.Command {
	var flags catalogFlags
	var output cli.OutputFlag
	var plainHTTP bool
	cmd := &cobra.Command{
		Use:   "inspect SOURCE",
		Short: "Show what a package holds and asks for, before it is installed",
		Long: `Show what a package holds: its plugins, what it asks the operator for (rules of the
API, host functions, files, the kernel's rights), what the configurations of its
plugins must be like, and in what it differs from the version that is installed.
SOURCE is as for install. Nothing is changed, and nothing of the package is run.`,
		Example: `  pintle plugin inspect quiet.tar.gz
  pintle plugin inspect registry.example.com/plugins/quiet:1.0.0 --key cosign.pub -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			c, _, err := flags.open()
			if err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			bar := cli.NewProgress(os.Stderr)
			defer bar.Done()
			got, asked, err := c.Inspect(ctx, args[0], catalog.SourceOptions{Stdin: cmd.InOrStdin(), PlainHTTP: plainHTTP, Progress: bar.Step})
			bar.Done()
			if err != nil {
				return err
			}
			i := inspectionOf(got, asked)
			return output.Print(cmd.OutOrStdout(), i, func(w io.Writer) { i.table(w) })
		},
	}
	flags.register(cmd, true)
	output.Register(cmd, "table")
	cmd.Flags().BoolVar(&plainHTTP, "plain-http", false, "speak to the registry without TLS")
	return asCatalog(cmd)
}

func inspectionOf(got *catalog.Installed, a *catalog.Asked) *inspection {
	i := &inspection{Installed: got, Kinds: map[string]string{}, Asks: orEmpty(a.Manifest.Asks())}
	for _, e := range a.Manifest.Plugins {
		i.Kinds[e.Name] = e.Kind
	}
	if a.Current != nil {
		i.Current, i.Changes = a.Current.Version, changes(a.Manifest, a.Current)
	}
	return i
}

// changes are how a bundle differs from the one in use: + is new, - is gone.
func changes(m, was *manifest.Manifest) []string {
	out := []string{}
	lines := func(m *manifest.Manifest) []string {
		list := []string{"version " + m.Version}
		for _, e := range m.Plugins {
			list = append(list, e.Kind+" "+e.Name)
			if e.ConfigSchema != nil {
				list = append(list, "configuration of "+e.Name+": "+e.ConfigSchema.Text())
			}
		}
		return append(list, m.Asks()...)
	}
	before, now := lines(was), lines(m)
	for _, line := range before {
		if !slices.Contains(now, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range now {
		if !slices.Contains(before, line) {
			out = append(out, "+ "+line)
		}
	}
	return out
}

func (i *inspection) table(w io.Writer) {
	cli.Row(w, "BUNDLE", i.Name)
	cli.Row(w, "VERSION", i.Version)
	cli.Row(w, "DIGEST", i.Digest)
	cli.Row(w, "SIGNED BY", signedBy(i.Signature))
	list := func(name string, lines []string) {
		for n, line := range lines {
			if n > 0 {
				name = ""
			}
			cli.Row(w, name, line)
		}
	}
	var plugins []string
	for _, name := range i.Plugins {
		plugins = append(plugins, name+" ("+i.Kinds[name]+")")
	}
	list("PLUGINS", plugins)
	if len(i.Asks) == 0 {
		cli.Row(w, "ASKS FOR", "nothing")
	}
	list("ASKS FOR", i.Asks)
	if i.Current != "" {
		if len(i.Changes) == 0 {
			cli.Row(w, "AGAINST "+i.Current, "no difference")
		}
		list("AGAINST "+i.Current, i.Changes)
	}
}
