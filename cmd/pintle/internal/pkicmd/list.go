package pkicmd

import (
	"crypto"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/tokenkeys"
)

// listedCertificate and listedKey are what the command prints as JSON or YAML.
type listedCertificate struct {
	Name     string     `json:"name,omitempty"`
	Subject  string     `json:"subject,omitempty"`
	Groups   []string   `json:"groups,omitempty"`
	Names    []string   `json:"names,omitempty"`
	Serial   string     `json:"serial,omitempty"`
	NotAfter *time.Time `json:"notAfter,omitempty"`
	State    string     `json:"state"`
}

type listedKey struct {
	File  string `json:"file"`
	ID    string `json:"id"`
	State string `json:"state"`
}

type listedCredentials struct {
	Certificates []listedCertificate `json:"certificates"`
	TokenKeys    []listedKey         `json:"tokenKeys"`
}

func newPKIListCommand() *cobra.Command {
	var at pkiFlags
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Certificates and token keys of a kernel's directory",
		Long: `List the certificates that a kernel's CA issued and the keys of service account tokens.

A certificate is current (that of its file), former (another took its place; it is
good until it expires or is revoked), issued (by a CertificateSigningRequest, whose
UID the name has), revoked, expired, or unknown (the file is damaged, or of another
CA). A token key is signing, next (it signs when every kernel
knows it), verifying (it signed before) or revoked.

Of certificates that an earlier release replaced, or that were signed elsewhere by the
CA's key, nothing is recorded; once revoked, they are listed by serial number.`,
		Example: `  pintle pki list
  pintle pki list --data /var/lib/pintle -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			dir, err := at.directory()
			if err != nil {
				return err
			}
			out, err := listCredentials(dir)
			if err != nil {
				return err
			}
			return output.Print(cmd.OutOrStdout(), out, func(w io.Writer) {
				cli.Row(w, "NAME", "SUBJECT", "SERIAL OR KEY ID", "EXPIRES", "STATE")
				for _, c := range out.Certificates {
					expires := "-"
					if c.NotAfter != nil {
						expires = c.NotAfter.Format(time.RFC3339)
					}
					cli.Row(w, dash(c.Name), dash(strings.Join(append([]string{c.Subject}, c.Groups...), ", ")), dash(c.Serial), expires, c.State)
				}
				for _, k := range out.TokenKeys {
					cli.Row(w, k.File, "service account tokens", k.ID, "-", k.State)
				}
			})
		},
	}
	at.register(cmd)
	output.Register(cmd, "table")
	return cmd
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func listCredentials(dir string) (listedCredentials, error) {
	out := listedCredentials{Certificates: []listedCertificate{}, TokenKeys: []listedKey{}}
	d, err := pki.OpenDirectory(dir)
	if err != nil {
		return out, err
	}
	all, err := d.List()
	if err != nil {
		return out, err
	}
	known := map[string]bool{}
	for _, c := range all {
		listed := listedCertificate{Name: c.Name, State: string(c.State)}
		if c.Cert != nil {
			known[c.Cert.SerialNumber.String()] = true
			until := c.Cert.NotAfter.UTC()
			listed.Subject, listed.Groups, listed.Serial, listed.NotAfter = c.Cert.Subject.CommonName, c.Cert.Subject.Organization, hexadecimal(c.Cert.SerialNumber), &until
			listed.Names = append(listed.Names, c.Cert.DNSNames...)
			for _, ip := range c.Cert.IPAddresses {
				listed.Names = append(listed.Names, ip.String())
			}
		}
		out.Certificates = append(out.Certificates, listed)
	}
	for _, e := range d.Revocations().Entries() {
		if !known[e.Serial.String()] {
			out.Certificates = append(out.Certificates, listedCertificate{Serial: hexadecimal(e.Serial), State: string(pki.StateRevoked)})
		}
	}
	keys, err := tokenkeys.Read(dir)
	if err != nil {
		return out, err
	}
	add := func(file, state string, key crypto.PublicKey) {
		out.TokenKeys = append(out.TokenKeys, listedKey{File: file, ID: tokenkeys.ID(key), State: state})
	}
	signing := "signing"
	if keys.Signer() == nil {
		signing = "revoked"
	}
	add(tokenkeys.SigningFile, signing, &keys.Signing.PublicKey)
	if keys.Next != nil {
		add(tokenkeys.NextFile, "next", &keys.Next.PublicKey)
	}
	for _, key := range keys.Former {
		add(tokenkeys.FormerFile, "verifying", key)
	}
	for _, key := range keys.Revoked {
		if tokenkeys.ID(key) != tokenkeys.ID(&keys.Signing.PublicKey) {
			add(tokenkeys.RevokedFile, "revoked", key)
		}
	}
	return out, nil
}

func hexadecimal(n *big.Int) string { return fmt.Sprintf("%x", n) }
