package pkicmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/api/etcd/certificates"
)

// etcdCertificates is what the command prints as JSON or YAML.
type etcdCertificates struct {
	CAFile     string   `json:"caFile"`
	CertFile   string   `json:"certFile"`
	KeyFile    string   `json:"keyFile"`
	ServerCert string   `json:"serverCertFile"`
	PeerCert   string   `json:"peerCertFile"`
	Flags      []string `json:"etcdFlags"`
}

func newPKIEtcdCommand() *cobra.Command {
	var hosts []string
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "etcd DIR",
		Short: "Certificates for an etcd and for the kernels that use it",
		Long: `Make an authority for etcd, and certificates of it for servers, peers and the
kernels, in a folder. What is there and good stays: run it again for certificates
that end soon, or with more hosts.

Keep ca.key where you make certificates. Members get server.*, peer.* and ca.crt,
kernels get client.* and ca.crt: who has client.key reads and writes everything.`,
		Example: `  pintle pki etcd etcd-pki
  pintle pki etcd etcd-pki --host 10.0.0.5 --host 10.0.0.6 --host 10.0.0.7`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			f, err := certificates.Write(certificates.Options{Directory: args[0], Hosts: hosts})
			if err != nil {
				return err
			}
			made := etcdCertificates{
				CAFile: f.CAFile, CertFile: f.Client.CertFile, KeyFile: f.Client.KeyFile,
				ServerCert: f.Server.CertFile, PeerCert: f.Peer.CertFile, Flags: f.Flags(),
			}
			return output.Print(cmd.OutOrStdout(), made, func(w io.Writer) {
				fmt.Fprintf(w, "etcd's flags:\n  %s\n", strings.Join(made.Flags, " \\\n  "))
				fmt.Fprintf(w, "the kernels' configuration:\n  store:\n    etcd:\n      certFile: %s\n      keyFile: %s\n      caFile: %s\n", made.CertFile, made.KeyFile, made.CAFile)
			})
		},
	}
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "name or address at which a member is reached, beside localhost; again for each")
	output.Register(cmd, "table")
	return cmd
}
