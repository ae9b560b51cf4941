package pki

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"pintle.dev/pintle/kernel/secretfile"
)

// Kubeconfig renders a kubeconfig that reaches server (https://host:port) as
// the pair's user; all data is inline.
func (p *PKI) Kubeconfig(server, user string, pair Pair) ([]byte, error) {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["pintle"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: p.caPEM}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	cfg.Contexts["pintle"] = &clientcmdapi.Context{Cluster: "pintle", AuthInfo: user}
	cfg.CurrentContext = "pintle"
	out, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %q: %w", user, err)
	}
	return out, nil
}

// WriteAdminKubeconfig writes the administrator's kubeconfig with mode 0600.
func (p *PKI) WriteAdminKubeconfig(path, server string) error {
	return p.writeKubeconfig(path, server, "admin", p.Admin())
}

// WriteSuperAdminKubeconfig writes the kubeconfig of system:masters with mode
// 0600, for when RBAC keeps the administrator out.
func (p *PKI) WriteSuperAdminKubeconfig(path, server string) error {
	return p.writeKubeconfig(path, server, "super-admin", p.SuperAdmin())
}

func (p *PKI) writeKubeconfig(path, server, user string, pair Pair) error {
	data, err := p.Kubeconfig(server, user, pair)
	if err != nil {
		return err
	}
	return secretfile.Write(path, data, 0o600)
}

// ClientConfig is an ordinary client configuration over TLS.
func (p *PKI) ClientConfig(server string, pair Pair) *rest.Config {
	return &rest.Config{
		Host: server,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: p.caPEM, CertData: pair.CertPEM, KeyData: pair.KeyPEM,
		},
	}
}
