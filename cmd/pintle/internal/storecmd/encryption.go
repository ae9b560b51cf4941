package storecmd

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/maintenance"
)

// encryptionFlag names the EncryptionConfiguration of the kernel whose store
// is read, by which single objects are encrypted.
type encryptionFlag struct {
	file   string
	opener *api.StoredOpener
}

func (e *encryptionFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.file, "encryption-config", os.Getenv("PINTLE_STORE_ENCRYPTIONCONFIG"),
		"EncryptionConfiguration by which to decrypt, as store.encryptionConfig of the kernel")
}

// open decrypts a stored value, if a configuration was named.
func (e *encryptionFlag) open(ctx context.Context, key string, value []byte) ([]byte, error) {
	if e.file == "" {
		return value, nil
	}
	if e.opener == nil {
		opener, err := api.NewStoredOpener(ctx, e.file)
		if err != nil {
			return nil, cli.UsageFault(err)
		}
		e.opener = opener
	}
	return e.opener.Open(ctx, key, value)
}

// openAll decrypts the versions of a key. Those whose key is not in the
// configuration any more stay as they are, unless that is so of all.
func (e *encryptionFlag) openAll(ctx context.Context, versions []maintenance.Value) error {
	var failed error
	opened := 0
	for i, v := range versions {
		value, err := e.open(ctx, v.Key, v.Value)
		if err != nil {
			failed = err
			continue
		}
		if v.Type != "deleted" {
			opened++
		}
		versions[i].Value = value
	}
	if opened > 0 {
		return nil
	}
	return failed
}
