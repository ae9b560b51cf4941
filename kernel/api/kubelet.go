package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"pintle.dev/pintle/kernel/api/auth/pki"
)

// defaultKubeletPort is where a node that does not say so serves.
const defaultKubeletPort = 10250

// HollowLabel marks a node whose pods are simulated: it serves nothing, and its
// address is made up.
const HollowLabel = "kernel.pintle.dev/hollow"

// addressTypes is the order in which a node's addresses are tried: what is
// reached by packets first, names after.
var addressTypes = []corev1.NodeAddressType{
	corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS,
}

// kubelets connects to the nodes' agents as the API server.
type kubelets struct {
	node func(ctx context.Context, name string) (*corev1.Node, error)
	// verified trusts agents that the cluster's CA signed, unverified any;
	// plain carries no certificate and is for what pods serve.
	verified, unverified, plain http.RoundTripper
}

func newKubelets(p *pki.PKI, node func(context.Context, string) (*corev1.Node, error)) *kubelets {
	shown := p.KubeletClient().GetClientCertificate
	// Upgrades need HTTP/1.1 connections of their own, which a transport
	// without HTTP/2 gives.
	make := func(c *tls.Config) http.RoundTripper {
		return utilnet.SetOldTransportDefaults(&http.Transport{
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:     c,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     90 * time.Second,
			TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		})
	}
	return &kubelets{
		node:       node,
		verified:   make(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.CAPool(), GetClientCertificate: shown, VerifyConnection: p.Guard().Verify}),
		unverified: make(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, GetClientCertificate: shown}), //nolint:gosec // asked for by the client: insecureSkipTLSVerifyBackend
		plain:      make(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}),                              //nolint:gosec // pods and services serve with certificates of their own
	}
}

// close ends idle connections.
func (k *kubelets) close() {
	for _, t := range []http.RoundTripper{k.verified, k.unverified, k.plain} {
		utilnet.CloseIdleConnectionsFor(t)
	}
}

// address is the host and port of a node's agent.
func (k *kubelets) address(ctx context.Context, name string) (host, port string, err error) {
	node, err := k.node(ctx, name)
	if err != nil {
		return "", "", err
	}
	if _, ok := node.Labels[HollowLabel]; ok {
		// Its address may be that of some machine out there.
		return "", "", apierrors.NewBadRequest(fmt.Sprintf("node %s simulates its pods: no container runs on it that could be read from or connected to", name))
	}
	for _, t := range addressTypes {
		for _, a := range node.Status.Addresses {
			if a.Type == t && a.Address != "" {
				p := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
				if p <= 0 {
					p = defaultKubeletPort
				}
				return a.Address, strconv.Itoa(p), nil
			}
		}
	}
	return "", "", fmt.Errorf("no preferred addresses found; known addresses: %v", node.Status.Addresses)
}

// proxyable refuses hosts that a proxied request must not reach: loopback,
// link-local and multicast ones, by which a user would speak to this machine
// as the server does.
func proxyable(ctx context.Context, host string) error {
	ips := []net.IPAddr{{IP: net.ParseIP(host)}}
	if ips[0].IP == nil {
		var err error
		if ips, err = net.DefaultResolver.LookupIPAddr(ctx, host); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	for _, ip := range ips {
		if !ip.IP.IsGlobalUnicast() {
			return apierrors.NewBadRequest("address not allowed")
		}
	}
	return nil
}
