package pkicmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/api/auth/credentials"
	"pintle.dev/pintle/kernel/api/auth/pki"
)

func newPKIRenewCommand() *cobra.Command {
	var at pkiFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "renew NAME... | --all",
		Short: "Issue certificates anew, for another year",
		Long: `Issue certificates of a kernel's directory anew, with the subject and the names that
they have. The kernel uses them for new connections at once, and writes the
kubeconfigs again; connections that are there go on.

The kernel itself renews in the last 30 days. The former certificate stays good until
it expires: pintle pki revoke ends it.`,
		Example: `  pintle pki renew admin
  pintle pki renew --all`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return cli.UsageFault(fmt.Errorf("want names of certificates that pintle pki list shows, or --all"))
			}
			dir, err := at.directory()
			if err != nil {
				return err
			}
			d, err := pki.OpenDirectory(dir)
			if err != nil {
				return err
			}
			if all {
				listed, err := d.List()
				if err != nil {
					return err
				}
				for _, c := range listed {
					if c.Name != "ca" && (c.State == pki.StateCurrent || c.State == pki.StateExpired) {
						names = append(names, c.Name)
					}
				}
			}
			made, err := d.Renew(unique(names)...)
			if err != nil {
				return err
			}
			when, err := taken(cmd, dir, takeUp, renewedIn(made, unique(names)))
			if err != nil {
				return err
			}
			for i, name := range unique(names) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s renewed: serial %s, expires %s\n", name, hexadecimal(made[i].Cert.SerialNumber), made[i].Cert.NotAfter.UTC().Format("2006-01-02"))
			}
			fmt.Fprintln(cmd.OutOrStdout(), when)
			return nil
		},
	}
	at.register(cmd)
	cmd.ValidArgsFunction = at.complete(renewable)
	cmd.Flags().BoolVar(&all, "all", false, "all but the CA's")
	return cmd
}

// renewedIn says whether a kernel has the new ones of the certificates that it uses.
func renewedIn(made []pki.Pair, names []string) func(credentials.InForce) bool {
	return func(now credentials.InForce) bool {
		for i, name := range names {
			if used := now.Certificates[name]; used != "" && used != hexadecimal(made[i].Cert.SerialNumber) {
				return false
			}
		}
		return true
	}
}

func unique(in []string) (out []string) {
	seen := map[string]bool{}
	for _, s := range in {
		if !seen[s] {
			out = append(out, s)
		}
		seen[s] = true
	}
	return out
}
