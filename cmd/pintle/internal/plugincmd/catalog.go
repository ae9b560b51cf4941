package plugincmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/store"
)

// Exit codes of the commands that handle packages, beside main's.
const (
	exitUntrusted = 3 // the package, or what is installed, is not what it should be
	exitNotFound  = 4 // no such bundle is installed
	catalogStatus = `Exit status: 0 done; 1 it failed, the message says what to do; 2 wrong flags or
arguments; 3 refused: the package is damaged or made to do harm, a digest is
another, its signature does not count, the operator has to say more (--yes,
--replace, --downgrade), or the plugin host refuses to enable it;
4 no such bundle is installed, or with --enable it was not in force in time.`
)

// catalogFlags say which catalog is meant.
type catalogFlags struct {
	source     cli.SourceFlags
	signatures string
	keys       []string
}

func (f *catalogFlags) register(cmd *cobra.Command, policy bool) {
	cmd.Flags().StringVar(&f.source.File, "config", "", "configuration file of the kernel; default: what the kernel of the data directory last had")
	cmd.Flags().StringVar(&f.source.Data, "data", "", "data directory of the kernel, running or not; default: $PINTLE_DATADIR, or .data")
	cli.CompleteFlag(cmd, "data", cli.Folders)
	if policy {
		cmd.Flags().StringVar(&f.signatures, "signatures", "", "off, warn or require; default: plugins.signatures, and require with --key")
		cmd.Flags().StringArrayVar(&f.keys, "key", nil, "public key (PEM, as cosign.pub) that may have signed it, beside plugins.keys; may be repeated")
		cli.CompleteFlag(cmd, "signatures", cli.OneOf(string(catalog.PolicyOff), string(catalog.PolicyWarn), string(catalog.PolicyRequire)))
	}
}

// config finds the catalog, its lock and whom it trusts.
func (f *catalogFlags) config() (cfg catalog.Config, data string, err error) {
	if f.source.File != "" {
		full, err := f.source.Load()
		if err != nil {
			return cfg, "", err
		}
		data, cfg = full.DataDir, catalogOf(full)
	} else {
		if data, err = cli.DataDirectory(f.source.Data); err != nil {
			return cfg, "", err
		}
		cfg, err = catalog.ReadLocation(data)
		if errors.Is(err, fs.ErrNotExist) {
			cfg = catalog.Config{Directory: filepath.Join(data, "catalog"), LockFile: filepath.Join(data, "plugins.lock"), Policy: catalog.PolicyOff, Directories: besideBinary()}
		} else if err != nil {
			return cfg, "", err
		}
	}
	cfg.Modules = modulecache.Of(data, plainLog())
	if len(f.keys) > 0 {
		cfg.Keys = slices.Concat(cfg.Keys, f.keys)
		cfg.Policy = catalog.PolicyRequire
	}
	if f.signatures != "" {
		switch p := catalog.Policy(f.signatures); p {
		case catalog.PolicyOff, catalog.PolicyWarn, catalog.PolicyRequire:
			cfg.Policy = p
		default:
			return cfg, "", cli.UsageFault(fmt.Errorf("--signatures %q: want off, warn or require", f.signatures))
		}
	}
	return cfg, data, nil
}

func catalogOf(cfg *config.Config) catalog.Config {
	p := cfg.Plugins
	out := catalog.Config{Directory: p.Catalog, LockFile: p.LockFile, Policy: catalog.Policy(p.Signatures), Keys: p.Keys, Directories: p.Directories}
	if len(out.Directories) == 0 {
		out.Directories = besideBinary()
	}
	for _, b := range p.Bundles {
		out.Bundles = append(out.Bundles, b.Name)
	}
	return out
}

// besideBinary is where bundles are looked for when no configuration says it.
func besideBinary() []string {
	exe, err := cli.Binary()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(filepath.Dir(exe), "plugins")}
}

// open opens the catalog.
func (f *catalogFlags) open() (*catalog.Catalog, string, error) {
	cfg, data, err := f.config()
	if err != nil {
		return nil, "", err
	}
	c, err := catalog.New(cfg, plainLog())
	return c, data, err
}

// plainLog writes to standard error what a person reads at once.
func plainLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: plainAttr}))
}

// plainAttr leaves the time out of what a person reads at once.
func plainAttr(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.Attr{}
	}
	return a
}

// running is the kernel that has a data directory open, by its pid.
func running(data string) bool {
	_, used := store.InUse(cli.StoreDirectory(data))
	return used
}

// asCatalog gives a command of the catalog its exit codes.
func asCatalog(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.Long += "\n\n" + catalogStatus
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		err := run(cmd, given)
		switch {
		case err == nil, errors.As(err, new(cli.ExitError)), errors.As(err, new(cli.UsageError)):
			return err
		case errors.Is(err, catalog.ErrPackage), errors.Is(err, catalog.ErrDigest), errors.Is(err, catalog.ErrSignature), errors.Is(err, catalog.ErrOperator):
			return cli.ExitWith(err, exitUntrusted)
		}
		return err
	}
	return cmd
}

// notInstalled gives a bundle that is not there its exit code; a file that is
// not there has another.
func notInstalled(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return cli.ExitWith(err, exitNotFound)
	}
	return err
}

const installLong = `Install a plugin bundle: it is checked, compiled, put into the catalog, a folder
named by its digest, and pinned in the lock file. A kernel that runs on the
data directory tries it first, and lists it at once; what it refuses is not
installed. Nothing of it goes on to run, and it has no rights, before
the configuration or Plugin objects put one of its plugins in use. What it asks
for beyond what every plugin may do (rules of the API, host functions, files, the
kernel's rights, admission) is shown, and asked on a terminal; elsewhere --yes
has to say it. A name that another bundle or plugin has is refused, and so are a
lower version without --downgrade and, without --replace, the name of a bundle of
plugins.directories. Installed over another version of
the same bundle, it takes that one's place while the kernel runs, and the
former stays for a rollback; with --beside it is only there, for pintle plugin
shadow and upgrade.

SOURCE is
  a folder    with a manifest.yaml that pintle plugin seal has sealed
  a tarball   .tar or .tar.gz, as pintle plugin package makes it; - reads it
              from standard input
  a registry  an OCI reference such as registry.example.com/plugins/quiet:1.0.0;
              a tag is resolved once, and its digest is pinned. Credentials are
              those of docker login. A registry on loopback is spoken to
              without TLS, another one only with --plain-http

Without SOURCE, what the lock file names and the catalog lacks is installed from
where it came: on another machine, after the catalog was lost.

A kernel that runs tries the bundle before the lock names it: it is started without
an identity, a role or a socket of the API, as an unprivileged bundle, and ended.
One that asks for the kernel's own rights is not tried.`

func newPluginInstallCommand() *cobra.Command {
	var flags catalogFlags
	var enable enableFlags
	var output cli.OutputFlag
	var plainHTTP, beside, yes bool
	var permit catalog.InstallOptions
	cmd := &cobra.Command{
		Use:   "install [SOURCE]",
		Short: "Install a plugin bundle from a folder, a tarball or a registry",
		Long:  installLong,
		Example: `  pintle plugin install ./quiet
  pintle plugin install registry.example.com/plugins/quiet:1.0.0 --key cosign.pub
  pintle plugin install quiet.tar.gz --enable --profile default-scheduler
  ssh build cat quiet.tar.gz | pintle plugin install -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			c, data, err := flags.open()
			if err != nil {
				return err
			}
			if err := enable.check(cmd, data, len(args) == 1); err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			bar := cli.NewProgress(os.Stderr)
			defer bar.Done()
			o := catalog.InstallOptions{
				SourceOptions: catalog.SourceOptions{Stdin: cmd.InOrStdin(), PlainHTTP: plainHTTP, Progress: bar.Step},
				Beside:        beside, Replace: permit.Replace, Downgrade: permit.Downgrade,
			}
			if len(args) == 1 {
				agreed := newConsent(cmd, args[0], yes)
				o.Confirm = func(a *catalog.Asked) error {
					bar.Done()
					return agreed.confirm(a)
				}
			}
			if len(args) == 0 {
				list, err := c.Restore(ctx, o)
				bar.Done()
				if err != nil {
					return err
				}
				if len(list) == 0 && output.People() {
					fmt.Fprintln(cmd.ErrOrStderr(), "nothing to install: the catalog has all that the lock file names")
					return nil
				}
				return output.Print(cmd.OutOrStdout(), orEmpty(list), func(w io.Writer) { installedTable(w, output.Wide(), list...) })
			}
			if err := enable.withKernel(&o, data); err != nil {
				return err
			}
			got, err := c.Install(ctx, args[0], o)
			bar.Done()
			if err != nil {
				return err
			}
			for _, line := range hints(got, data) {
				fmt.Fprintln(cmd.ErrOrStderr(), line)
			}
			if enable.on {
				if err := enable.enable(ctx, got, data); err != nil {
					return err
				}
			}
			return output.Print(cmd.OutOrStdout(), got, func(w io.Writer) { installedTable(w, output.Wide(), *got) })
		},
	}
	flags.register(cmd, true)
	output.Register(cmd, "table")
	cmd.Flags().BoolVar(&plainHTTP, "plain-http", false, "speak to the registry without TLS")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "agree to what the bundle asks for, without a question")
	cmd.Flags().BoolVar(&permit.Replace, "replace", false, "let it take the place of the bundle of that name in plugins.directories")
	cmd.Flags().BoolVar(&permit.Downgrade, "downgrade", false, "let it take the place of a higher version")
	cmd.Flags().BoolVar(&beside, "beside", false, "install it next to the version in use, which stays in use")
	enable.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("replace", "beside")
	return asCatalog(cmd)
}

// hints say what an operator may have to do next.
func hints(got *catalog.Installed, data string) []string {
	var out []string
	if got.Privileged {
		out = append(out, fmt.Sprintf("%s asks for the kernel's own user and rights: it can be enabled when plugins.bundles of the configuration has {name: %s, privileged: true, digest: %q}", got.Name, got.Name, got.Digest))
	}
	if !running(data) {
		out = append(out, "no kernel runs on "+data+": it is loaded at the next start")
	}
	return out
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// installedTable lists bundles, and with wide where they came from and lie.
func installedTable(w io.Writer, wide bool, list ...catalog.Installed) {
	cells := func(more []any, cells ...any) {
		if wide {
			cells = append(cells, more...)
		}
		cli.Row(w, cells...)
	}
	cells([]any{"SOURCE", "FOLDER"}, "BUNDLE", "VERSION", "DIGEST", "PLUGINS", "SIGNED BY", "RESULT")
	for _, i := range list {
		result := "installed"
		switch {
		case i.Beside:
			result = "installed beside"
		case i.Previous != "":
			result = "installed over " + i.Previous
		case i.Present:
			result = "was there"
		}
		plugins := few(i.Plugins)
		if wide {
			plugins = strings.Join(i.Plugins, ",")
		}
		cells([]any{i.Source, i.Directory}, i.Name, i.Version, i.Digest, plugins, signedBy(i.Signature), result)
	}
}

// isBundleName tells the name of a bundle from a source, whatever lies in the present
// folder: a source has a slash, or ends like a tarball.
func isBundleName(arg string) bool {
	for _, end := range []string{".tar", ".tar.gz", ".tgz"} {
		if strings.HasSuffix(arg, end) {
			return false
		}
	}
	return bundleName.MatchString(arg)
}

// few are names that fit into a cell.
func few(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ","), len(names)-most)
	}
	return strings.Join(names, ",")
}

func signedBy(v *catalog.Verified) string {
	switch {
	case v == nil:
		return "<not checked>"
	case v.Expires != nil:
		return fmt.Sprintf("%.19s until %s", v.Key, cli.When(*v.Expires))
	}
	return fmt.Sprintf("%.19s", v.Key)
}

func newPluginVerifyCommand() *cobra.Command {
	var flags catalogFlags
	var output cli.OutputFlag
	var plainHTTP bool
	cmd := &cobra.Command{
		Use:   "verify {NAME | SOURCE}",
		Short: "Check an installed bundle, or a package before it is installed",
		Long: `Check a bundle: NAME of one that is installed (its lock, every digest, its
signature), or SOURCE of a package as for install (all that install checks). A
word without a slash is a NAME, unless it ends like a tarball: ./quiet is a folder.
With --key it must be signed by that key; its signature is checked without a
network. Nothing is changed.`,
		Example: `  pintle plugin verify quiet
  pintle plugin verify quiet.tar.gz --key cosign.pub`,
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
			var got *catalog.Installed
			if isBundleName(args[0]) {
				got, err = c.Verify(args[0])
				err = notInstalled(err)
			} else {
				got, err = c.VerifySource(ctx, args[0], catalog.SourceOptions{Stdin: cmd.InOrStdin(), PlainHTTP: plainHTTP, Progress: bar.Step})
			}
			bar.Done()
			if err != nil {
				return err
			}
			return output.Print(cmd.OutOrStdout(), got, func(w io.Writer) {
				cli.Row(w, "BUNDLE", "VERSION", "DIGEST", "PLUGINS", "SIGNED BY", "RESULT")
				cli.Row(w, got.Name, got.Version, got.Digest, few(got.Plugins), signedBy(got.Signature), "ok")
			})
		},
	}
	flags.register(cmd, true)
	cmd.ValidArgsFunction = flags.complete(true)
	output.Register(cmd, "table")
	cmd.Flags().BoolVar(&plainHTTP, "plain-http", false, "speak to the registry without TLS")
	return asCatalog(cmd)
}
