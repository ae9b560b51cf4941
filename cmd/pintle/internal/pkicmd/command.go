package pkicmd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/api/auth/credentials"
	"pintle.dev/pintle/kernel/api/auth/pki"
)

const pkiLong = `Look after keys and certificates: those of a kernel's data directory, and of an etcd.

list, renew, revoke and rotate work on the files in pki/ of the data directory, also
while its kernel runs: it takes them up within seconds, without a restart, and the
command waits for that. They need no access to the API, but to the files: who may
write them has the key of the cluster's CA.

Which directory: --data DIR, else $PINTLE_DATADIR, else .data.`

func New() *cobra.Command {
	cmd := &cobra.Command{Use: "pki", Short: "Look after keys and certificates", Long: pkiLong}
	cmd.AddCommand(newPKIListCommand(), newPKIRenewCommand(), newPKIRevokeCommand(), newPKIRotateCommand(), newPKIEtcdCommand())
	return cmd
}

// pkiFlags say which directory is meant.
type pkiFlags struct{ data string }

func (f *pkiFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.data, "data", "", "data directory of the kernel, running or not")
	cli.CompleteFlag(cmd, "data", cli.Folders)
}

func (f *pkiFlags) directory() (string, error) {
	data, err := cli.DataDirectory(f.data)
	if err != nil {
		return "", err
	}
	return filepath.Join(data, "pki"), nil
}

// complete offers the values that pick takes from what is listed.
func (f *pkiFlags) complete(pick func(listedCredentials) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		dir, err := f.directory()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		listed, err := listCredentials(dir)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(pick(listed), func(s string) bool { return slices.Contains(args, s) }), cobra.ShellCompDirectiveNoFileComp
	}
}

// renewable are the names of certificates that lie in files.
func renewable(l listedCredentials) (out []string) {
	for _, c := range l.Certificates {
		if c.Name != "ca" && c.State == string(pki.StateCurrent) {
			out = append(out, c.Name)
		}
	}
	return out
}

// formerSerials are those of certificates of which no file of the directory is left.
func formerSerials(l listedCredentials) (out []string) {
	for _, c := range l.Certificates {
		if c.State == string(pki.StateFormer) || c.State == string(pki.StateIssued) {
			out = append(out, c.Serial)
		}
	}
	return out
}

// formerKeys are the ids of token keys that verify and do not sign.
func formerKeys(l listedCredentials) (out []string) {
	for _, k := range l.TokenKeys {
		if k.State == "verifying" {
			out = append(out, k.ID)
		}
	}
	return out
}

// How long a kernel may take to take something up. A new token key signs when the
// other kernels on its etcd have learned of it.
const (
	takeUp       = 20 * time.Second
	takeUpRotate = time.Minute
)

// taken waits until a kernel has taken a change up, and says from when on it holds.
func taken(cmd *cobra.Command, dir string, limit time.Duration, done func(credentials.InForce) bool) (string, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	running, err := credentials.Await(ctx, dir, done)
	if err != nil {
		return "", fmt.Errorf("it is written, but not in force: %w", err)
	}
	if !running {
		return "no kernel runs there: in force from its next start on", nil
	}
	return "in force", nil
}
