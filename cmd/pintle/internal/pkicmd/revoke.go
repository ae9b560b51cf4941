package pkicmd

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/api/auth/credentials"
	"pintle.dev/pintle/kernel/api/auth/pki"
)

func newPKIRevokeCommand() *cobra.Command {
	var at pkiFlags
	var serials, files, keys []string
	cmd := &cobra.Command{
		Use:   "revoke [NAME...]",
		Short: "End certificates and former token keys before they expire",
		Long: `Put certificates on the list of revoked ones (pki/ca.crl, an RFC 5280 list that the CA
signs). Requests with such a certificate are refused at once, at the API and at the
nodes' ports; its connections are cut, with the watches and exec sessions on them. There
is no way back.

Machines that joined with pintle node read the list from the ConfigMap
pintle-revoked-certificates in kube-system, a moment later. One that cannot reach the API
takes what is revoked meanwhile.

NAME is a certificate of the directory: it is revoked and issued anew, since the kernel
works with it. So a stolen copy of admin.kubeconfig ends, and the file has a new
certificate. --serial takes one that pintle pki list shows, and --file a certificate
or a kubeconfig from anywhere. Rights are not touched: to end a user, take the bindings
away too.

--token-key ends a former key of service account tokens: tokens that it signed are
refused. All kernels on one etcd obey.`,
		Example: `  pintle pki revoke admin
  pintle pki revoke --serial 5f3a9c0e
  pintle pki revoke --file stolen.kubeconfig
  pintle pki revoke --token-key kJ2mX0aV`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names)+len(serials)+len(files)+len(keys) == 0 {
				return cli.UsageFault(errors.New("want names of certificates that pintle pki list shows, --serial, --file or --token-key"))
			}
			dir, err := at.directory()
			if err != nil {
				return err
			}
			d, err := pki.OpenDirectory(dir)
			if err != nil {
				return err
			}
			r := pki.Revocation{Names: unique(names)}
			for _, file := range files {
				certs, err := certificatesOf(file)
				if err != nil {
					return err
				}
				r.Certificates = append(r.Certificates, certs...)
			}
			for _, serial := range serials {
				if err := d.Find(&r, serial); err != nil {
					return err
				}
			}
			revoked, renewed, err := d.Revoke(r)
			if err != nil {
				return err
			}
			var wantSerials, ended []string
			for _, c := range revoked {
				wantSerials = append(wantSerials, hexadecimal(c.SerialNumber))
				fmt.Fprintf(cmd.OutOrStdout(), "certificate of %s revoked: serial %x\n", c.Subject.CommonName, c.SerialNumber)
			}
			for _, n := range r.Serials {
				wantSerials = append(wantSerials, hexadecimal(n))
				fmt.Fprintf(cmd.OutOrStdout(), "serial number %x revoked\n", n)
			}
			var made []string
			for _, p := range renewed {
				made = append(made, nameOf(p))
				fmt.Fprintf(cmd.OutOrStdout(), "%s renewed: serial %x\n", nameOf(p), p.Cert.SerialNumber)
			}
			for _, key := range keys {
				id, err := credentials.RevokeKey(dir, key)
				if err != nil {
					return err
				}
				ended = append(ended, id)
				fmt.Fprintf(cmd.OutOrStdout(), "token key %s revoked\n", id)
			}
			when, err := taken(cmd, dir, takeUp, func(now credentials.InForce) bool {
				missing := func(s string) bool { return !slices.Contains(now.Revoked, s) }
				verifies := func(id string) bool { return slices.Contains(now.Verifying, id) }
				return !slices.ContainsFunc(wantSerials, missing) && !slices.ContainsFunc(ended, verifies) && renewedIn(renewed, made)(now)
			})
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), when)
			return nil
		},
	}
	at.register(cmd)
	cmd.Flags().StringArrayVar(&serials, "serial", nil, "serial number in hexadecimal digits, or its first six and more; again for each")
	cmd.Flags().StringArrayVar(&files, "file", nil, "a certificate (PEM), or a kubeconfig with one; again for each")
	cmd.Flags().StringArrayVar(&keys, "token-key", nil, "id of a former token key, or its first six characters and more; again for each")
	cmd.ValidArgsFunction = at.complete(renewable)
	cli.CompleteFlag(cmd, "serial", at.complete(formerSerials))
	cli.CompleteFlag(cmd, "token-key", at.complete(formerKeys))
	return cmd
}

func nameOf(p pki.Pair) string {
	name := filepath.Base(p.CertFile)
	return name[:len(name)-len(filepath.Ext(name))]
}

// certificatesOf are those of a PEM file or a kubeconfig; of a chain, the first.
func certificatesOf(file string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	texts := [][]byte{data}
	if !bytes.Contains(data, []byte("-----BEGIN ")) {
		texts = nil
		cfg, err := clientcmd.LoadFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: neither a certificate nor a kubeconfig: %w", file, err)
		}
		for _, user := range cfg.AuthInfos {
			text := user.ClientCertificateData
			if user.ClientCertificate != "" {
				path := user.ClientCertificate
				if !filepath.IsAbs(path) {
					path = filepath.Join(filepath.Dir(file), path)
				}
				if text, err = os.ReadFile(path); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
			}
			if len(text) > 0 {
				texts = append(texts, text)
			}
		}
	}
	var out []*x509.Certificate
	for _, text := range texts {
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
				continue
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			out = append(out, cert)
			break
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: there is no certificate in it", file)
	}
	return out, nil
}
