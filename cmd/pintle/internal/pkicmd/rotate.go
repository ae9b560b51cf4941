package pkicmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/api/auth/credentials"
)

func newPKIRotateCommand() *cobra.Command {
	var at pkiFlags
	cmd := &cobra.Command{
		Use:   "rotate sa",
		Short: "Sign service account tokens by a new key",
		Long: `Make a new key for service account tokens, without a restart. It signs from then on;
the former key verifies on, so that no token becomes worthless, and both stand in
/openid/v1/jwks. With several kernels on one etcd the new key signs when all had the
time to learn of it, ten seconds later.

Tokens of pods are renewed within an hour; others live as long as they were made for
(auth.serviceAccountMaxTokenExpiration). Then, or at once where the key leaked, end the
former key: pintle pki revoke --token-key ID.`,
		Example:   `  pintle pki rotate sa`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"sa"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := at.directory()
			if err != nil {
				return err
			}
			id, err := credentials.Rotate(dir)
			if err != nil {
				return err
			}
			when, err := taken(cmd, dir, takeUpRotate, func(now credentials.InForce) bool { return now.Signing == id })
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "new token key %s; the former one verifies until it is revoked\n%s\n", id, when)
			return nil
		},
	}
	at.register(cmd)
	return cmd
}
