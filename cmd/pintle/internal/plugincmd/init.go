package plugincmd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/templates"
)

// sdkModule is the module that plugins in Go import.
const sdkModule = "pintle.dev/pintle"

func newPluginInitCommand() *cobra.Command {
	var language, dir, sdkDir string
	cmd := &cobra.Command{
		Use:   "init KIND NAME",
		Short: "Make the source of a new plugin",
		Long: `Make the source of a new plugin: formatted, with a manifest, tests and cases, and
ready to be built.

Kinds and languages:
` + kindsText() + `
NAME is the bundle's name and its folder's. A plugin in Go finds Pintle's module
through a go.work file that points to a checkout (--sdk) until the module is
published; by default the checkout that this pintle was built in, or the one
around the present folder.

Exit codes: 0 made; 1 the files could not be written; 2 wrong arguments, no
checkout found, or the folder holds files already.`,
		Example: `  pintle plugin init predicate quiet
  pintle plugin init priority roomy --lang rust
  pintle plugin init controller greeter --dir src/greeter`,
		Args: exactly("KIND", "NAME"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return templates.Kinds(language), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name := args[0], args[1]
			if dir == "" {
				dir = name
			}
			values := templates.Values{Name: name, Contract: contractv1.Files}
			if language == "go" {
				var err error
				if values.SDK, values.Go, err = findSDK(sdkDir); err != nil {
					return cli.UsageFault(fmt.Errorf("plugin init: %w", err))
				}
			}
			files, err := templates.Render(language, kind, values)
			if err != nil {
				return cli.UsageFault(fmt.Errorf("plugin init: %w", err))
			}
			if filepath.Base(dir) != name && filepath.Base(mustAbs(dir)) != name {
				return cli.UsageFault(fmt.Errorf("plugin init: folder %s: a bundle's folder has the bundle's name, %s", dir, name))
			}
			if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
				return cli.UsageFault(fmt.Errorf("plugin init: %s is there and not empty; choose another name or --dir", dir))
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("plugin init: %w", err)
			}
			for _, file := range slices.Sorted(maps.Keys(files)) {
				path := filepath.Join(dir, filepath.FromSlash(file))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return fmt.Errorf("plugin init: %w", err)
				}
				if err := os.WriteFile(path, files[file], 0o644); err != nil {
					return fmt.Errorf("plugin init: %w", err)
				}
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "next: pintle plugin build %s && pintle plugin test %s\n", dir, dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&language, "lang", "go", strings.Join(templates.Languages(), ", "))
	cli.CompleteFlag(cmd, "lang", cli.OneOf(templates.Languages()...))
	cmd.Flags().StringVar(&dir, "dir", "", "folder to make (default NAME)")
	cmd.Flags().StringVar(&sdkDir, "sdk", "", "checkout of Pintle, for plugins in Go")
	return cmd
}

// kindsText lists what there are templates of.
func kindsText() string {
	var b strings.Builder
	for _, language := range templates.Languages() {
		fmt.Fprintf(&b, "  %-15s %s\n", language, strings.Join(templates.Kinds(language), ", "))
	}
	return b.String()
}

// exactly wants as many arguments as it has names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return cli.UsageFault(fmt.Errorf("%s: want %s; see %s --help", cmd.CommandPath(), strings.Join(names, " "), cmd.CommandPath()))
		}
		return nil
	}
}

func mustAbs(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

var goDirective = regexp.MustCompile(`(?m)^go (\S+)$`)

// findSDK returns the checkout to use and the version of Go that it asks for.
func findSDK(given string) (dir, version string, err error) {
	if given != "" {
		dir = mustAbs(given)
		if version = sdkAt(dir); version == "" {
			return "", "", fmt.Errorf("--sdk %s: no checkout of %s; want the folder with its go.mod", given, sdkModule)
		}
		return dir, version, nil
	}
	var from []string
	if exe, err := cli.Binary(); err == nil {
		from = append(from, filepath.Dir(exe))
	}
	if wd, err := os.Getwd(); err == nil {
		from = append(from, wd)
	}
	for _, dir := range from {
		for {
			if version := sdkAt(dir); version != "" {
				return dir, version, nil
			}
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	return "", "", fmt.Errorf("no checkout of %s around this program or the present folder; name one with --sdk", sdkModule)
}

// sdkAt is the version of Go that the checkout at dir asks for; empty: there is none.
func sdkAt(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.Contains(string(data), "module "+sdkModule+"\n") {
		return ""
	}
	if m := goDirective.FindStringSubmatch(string(data)); m != nil {
		return m[1]
	}
	return ""
}
