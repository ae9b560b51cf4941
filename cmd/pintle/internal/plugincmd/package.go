package plugincmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
)

// passwordVariable holds the password of a private key, as cosign's does.
const passwordVariable = "COSIGN_PASSWORD"

// password asks for the password of a private key, unless the environment has it.
func password(prompt string, again bool) func() ([]byte, error) {
	return func() ([]byte, error) {
		if word, ok := os.LookupEnv(passwordVariable); ok {
			return []byte(word), nil
		}
		fd := int(os.Stdin.Fd())
		if !term.IsTerminal(fd) {
			return nil, fmt.Errorf("the %s is not known: set %s, or run this on a terminal", prompt, passwordVariable)
		}
		ask := func(text string) ([]byte, error) {
			fmt.Fprint(os.Stderr, text)
			defer fmt.Fprintln(os.Stderr)
			return term.ReadPassword(fd)
		}
		word, err := ask(prompt + ": ")
		if err != nil || !again {
			return word, err
		}
		second, err := ask(prompt + ", once more: ")
		if err == nil && string(word) != string(second) {
			err = cli.UsageFault(errors.New("the two passwords differ"))
		}
		return word, err
	}
}

func newPluginPackageCommand() *cobra.Command {
	var output cli.OutputFlag
	var file, push, key, expires string
	var plainHTTP, overwrite bool
	cmd := &cobra.Command{
		Use:   "package DIR {-f FILE | --push REFERENCE}",
		Short: "Pack a sealed bundle into one tarball, or push it to a registry, and sign it",
		Long: `Pack the bundle of a folder that pintle plugin seal has sealed: its manifest and
what that names, the builds for all platforms, and nothing else. The same bundle
gives the same bytes.

--push sends it to an OCI registry, as an artefact with types of its own, or as
a plain image of one layer where the registry refuses those. --sign-key signs
it with a key pair of cosign's: "cosign verify --key cosign.pub
--insecure-ignore-tlog REFERENCE" accepts what is pushed. The password of the
key comes from COSIGN_PASSWORD, or is asked for. --expires ends the signature.`,
		Example: `  pintle plugin package quiet -f quiet.tar.gz --sign-key cosign.key
  pintle plugin package quiet --push registry.example.com/plugins/quiet:1.0.0 --sign-key cosign.key --expires 8760h`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if (file == "") == (push == "") {
				return cli.UsageFault(errors.New("plugin package: name a file with -f, or a registry with --push"))
			}
			bar := cli.NewProgress(os.Stderr)
			defer bar.Done()
			o := catalog.PackOptions{PlainHTTP: plainHTTP, Progress: bar.Step}
			var err error
			if o.Expires, err = expiry(expires, time.Now()); err != nil {
				return err
			}
			if key != "" {
				if o.Key, err = catalog.ReadPrivateKey(key, password("password of "+key, false)); err != nil {
					return err
				}
			} else if expires != "" {
				return cli.UsageFault(errors.New("plugin package: --expires ends a signature: sign it with --sign-key"))
			}
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			var got *catalog.Packed
			out := cmd.OutOrStdout()
			switch {
			case push != "":
				got, err = catalog.Push(ctx, args[0], push, o)
			case file == "-":
				if term.IsTerminal(int(os.Stdout.Fd())) {
					return cli.UsageFault(errors.New("a package is not for a terminal: name a file, or send standard output elsewhere"))
				}
				out = cmd.ErrOrStderr()
				got, err = catalog.WriteTarball(ctx, args[0], cmd.OutOrStdout(), o)
			default:
				got, err = cli.WriteFile(file, overwrite, func(w io.Writer) (*catalog.Packed, error) { return catalog.WriteTarball(ctx, args[0], w, o) })
				if err == nil {
					got.File = file
					err = os.Chmod(file, 0o644) // nothing in it is secret
				}
			}
			bar.Done()
			if err != nil {
				return err
			}
			return output.Print(out, got, func(w io.Writer) { packedTable(w, got) })
		},
	}
	output.Register(cmd, "table")
	cmd.Flags().StringVarP(&file, "file", "f", "", "write this tarball (.tar.gz); - is standard output")
	cmd.Flags().StringVar(&push, "push", "", "push to this OCI reference, with a tag")
	cmd.Flags().StringVar(&key, "sign-key", "", "sign with this private key of cosign's")
	cmd.Flags().StringVar(&expires, "expires", "", "the signature's end: a time such as 2030-01-01T00:00:00Z, or a duration such as 8760h; default: never")
	cmd.Flags().BoolVar(&plainHTTP, "plain-http", false, "speak to the registry without TLS")
	cmd.Flags().BoolVar(&overwrite, "force", false, "replace FILE when it is there")
	return asCatalog(cmd)
}

// expiry reads a time or a duration; empty is never.
func expiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !at.After(now) {
		return at, cli.UsageFault(fmt.Errorf("--expires %q: want a time to come such as 2030-01-01T00:00:00Z, or a duration such as 8760h", text))
	}
	return at, nil
}

func packedTable(w io.Writer, p *catalog.Packed) {
	where, signed := p.File, "<none>"
	if p.Reference != "" {
		where = p.Reference
	}
	if p.SignedBy != "" {
		signed = fmt.Sprintf("%.19s", p.SignedBy)
	}
	if p.Plain {
		where += " (as a plain image)"
	}
	cli.Row(w, "BUNDLE", "VERSION", "DIGEST", "FILES", "SIGNED BY", "PACKAGE")
	cli.Row(w, p.Name, p.Version, p.Digest, cli.BytesText(p.Bytes), signed, where)
}

func newPluginKeygenCommand() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "Make a pair of keys for signing packages",
		Long: `Make a pair of keys as "cosign generate-key-pair" does: PREFIX.key, the private
one, encrypted by a password, and PREFIX.pub, which operators name in
plugins.keys. The password comes from COSIGN_PASSWORD, or is asked for.`,
		Example: "  pintle plugin keygen --prefix release",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			word, err := password("password of the new key", true)()
			if err != nil {
				return err
			}
			private, public, err := catalog.GenerateKey(word)
			if err != nil {
				return err
			}
			for _, f := range []struct {
				name string
				data []byte
				mode os.FileMode
			}{{prefix + ".key", private, 0o600}, {prefix + ".pub", public, 0o644}} {
				if _, err := cli.WriteFile(f.name, false, func(w io.Writer) (int, error) { return w.Write(f.data) }); err != nil {
					return err
				}
				if err := os.Chmod(f.name, f.mode); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), f.name)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "cosign", "names of the two files, without .key and .pub")
	return asCatalog(cmd)
}
