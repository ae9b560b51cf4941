package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// sampleServer is Kubernetes' sample of an aggregated API server, as a process beside
// the kernel, with an etcd of its own.
type sampleServer struct {
	address  string // where it listens
	caBundle string // base64 of PEM
	roots    *x509.CertPool
}

// machineAddress is one of the machine's own that is not loopback's, which the API
// refuses as an endpoint.
func machineAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	skip(t, "this machine has no address beside loopback's")
	return ""
}

// servingFiles makes a certificate of a name, by an authority of itself.
func servingFiles(t *testing.T, dir, name string) (certFile, keyFile string, certPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, certPEM = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := errors.Join(os.WriteFile(certFile, certPEM, 0o600), os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, certPEM
}

// token is one of a service account.
func (e *env) token(t *testing.T, ns, account string) string {
	t.Helper()
	res, err := e.client.CoreV1().ServiceAccounts(ns).CreateToken(bound(t), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res.Status.Token
}

// startSample starts the sample as service account sample of a namespace, with the
// rights that Kubernetes' documentation gives such a server.
func startSample(t *testing.T, e *env, ns string) *sampleServer {
	t.Helper()
	program, err := buildPackage("sample-apiserver", "./e2e/conformance/suite", "k8s.io/sample-apiserver", "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	etcd, err := cluster.StartEtcd(t.Context(), nil, filepath.Join(dir, "etcd"), false)
	if errors.Is(err, cluster.ErrNoEtcd) {
		skip(t, cluster.ErrNoEtcd.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	e.apply(t, ns, strings.ReplaceAll(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: sample}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sample-delegates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: ServiceAccount, name: sample, namespace: NS}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sample-reads}
rules:
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
- {apiGroups: [admissionregistration.k8s.io], resources: ["*"], verbs: [get, list, watch]}
- {apiGroups: [flowcontrol.apiserver.k8s.io], resources: [flowschemas, prioritylevelconfigurations], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sample-reads}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sample-reads}
subjects: [{kind: ServiceAccount, name: sample, namespace: NS}]
`, "NS", ns))
	e.kubectl(t, "-n", "kube-system", "create", "rolebinding", "sample-reads-authentication", "--role=extension-apiserver-authentication-reader", "--serviceaccount="+ns+":sample")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	for _, args := range [][]string{
		{"set-cluster", "c", "--server=" + e.cfg.Host, "--certificate-authority=" + e.cfg.CAFile, "--embed-certs"},
		{"set-credentials", "u", "--token=" + e.token(t, ns, "sample")},
		{"set-context", "x", "--cluster=c", "--user=u"},
		{"use-context", "x"},
	} {
		if e.cfg.CAFile == "" && args[0] == "set-cluster" {
			file := filepath.Join(dir, "ca.crt")
			if err := os.WriteFile(file, e.cfg.CAData, 0o600); err != nil {
				t.Fatal(err)
			}
			args[3] = "--certificate-authority=" + file
		}
		e.kubectl(t, append([]string{"config", "--kubeconfig", kubeconfig}, args...)...)
	}
	cert, key, certPEM := servingFiles(t, dir, "sample."+ns+".svc")
	host := machineAddress(t)
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &sampleServer{address: listener.Addr().String(), caBundle: base64.StdEncoding.EncodeToString(certPEM), roots: x509.NewCertPool()}
	s.roots.AppendCertsFromPEM(certPEM)
	listener.Close()
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--etcd-servers", etcd.URL, "--bind-address", host, "--secure-port", port, "--tls-cert-file", cert, "--tls-private-key-file", key,
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cluster.StartProcess(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an orderly stop waits for the watches of the controllers
		_ = cmd.Wait()
		log.Close()
		if data, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("log of sample-apiserver ends with:\n%s", data[max(0, len(data)-4000):])
		}
	})
	return s
}

// get asks the sample itself, as a client that goes past the kernel.
func (s *sampleServer) get(t *testing.T, path string, header map[string]string) (int, string) {
	t.Helper()
	host, _, _ := net.SplitHostPort(s.address)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, InsecureSkipVerify: host != ""}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(bound(t), http.MethodGet, "https://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// TestSampleAPIServer: Kubernetes' sample of an aggregated API server runs unmodified.
func TestSampleAPIServer(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	e := launched(t, cluster.Options{Name: "aggregation", Config: bareConfig(t)})
	ns := e.namespace(t)
	in, refused := e.within(t, ns)
	contains(t, in("get", "apiservices"), "SERVICE", "v1.apps ", "Local", "True")
	s := startSample(t, e, ns)
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	slice := fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: sample, labels: {kubernetes.io/service-name: sample}}
addressType: IPv4
ports: [{name: api, port: %s}]
endpoints: [{addresses: [%s]}]
`, port, host)
	e.apply(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: sample}
spec: {ports: [{name: api, port: 443, targetPort: %s}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.wardle.example.com}
spec: {group: wardle.example.com, version: v1alpha1, groupPriorityMinimum: 2000, versionPriority: 200, service: {namespace: %s, name: sample}, caBundle: %s}
`, port, ns, s.caBundle))
	available := func(status, reason string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if out := in("get", "apiservice", "v1alpha1.wardle.example.com"); !strings.Contains(out, status+" ") || !strings.Contains(out, reason) {
				return errors.New(out)
			}
			return nil
		})
	}
	available("False", "EndpointsNotFound")
	refused("APIService v1alpha1.wardle.example.com: EndpointsNotFound", "get", "--raw", "/apis/wardle.example.com/v1alpha1/flunders")
	e.apply(t, ns, slice)
	available("True", ns+"/sample")
	eventually(t, func(context.Context) error {
		if out := in("api-resources", "--api-group=wardle.example.com"); !strings.Contains(out, "Flunder") {
			return errors.New(out)
		}
		return nil
	})

	t.Run("kubectl", func(t *testing.T) {
		eventually(t, func(context.Context) error {
			if r := e.try(t, "explain", "flunders"); !strings.Contains(r.stdout, "KIND:       Flunder") {
				return errors.New(r.stdout + r.stderr)
			}
			return nil
		})
		contains(t, in("api-versions"), "apps/v1", "wardle.example.com/v1alpha1")
		e.apply(t, ns, "{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: one, labels: {a: b}}, spec: {reference: some}}")
		contains(t, in("get", "flunders", "-l", "a=b"), "NAME", "one")
		contains(t, in("get", "flunder", "one", "-o", "yaml"), "reference: some", "namespace: "+ns)
		contains(t, in("patch", "flunder", "one", "--type=merge", "-p", `{"spec":{"reference":"other"}}`), "patched")
		contains(t, in("label", "flunder", "one", "c=d"), "labeled")
		contains(t, in("describe", "flunder", "one"), "other")
		refused("NotFound", "get", "flunder", "none")
		e.awaitWatched(t, ns, "flunders", "one", "flunder.wardle.example.com/one")
		contains(t, in("delete", "flunder", "one"), "deleted")
	})

	t.Run("rights", func(t *testing.T) {
		in("create", "serviceaccount", "fisher")
		flunders := "/apis/wardle.example.com/v1alpha1/namespaces/" + ns + "/flunders"
		as := "--as=system:serviceaccount:" + ns + ":fisher"
		refused("Forbidden", "get", "flunders", as)
		// Past the kernel, whose word nobody else can give.
		if code, body := s.get(t, flunders, map[string]string{"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters"}); code != http.StatusForbidden || !strings.Contains(body, "system:anonymous") {
			t.Errorf("who says to be the front proxy: %d %s", code, body)
		}
		bearer := map[string]string{"Authorization": "Bearer " + e.token(t, ns, "fisher")}
		if code, body := s.get(t, flunders, bearer); code != http.StatusForbidden || !strings.Contains(body, "system:serviceaccount:"+ns+":fisher") {
			t.Errorf("a token without rights: %d %s", code, body)
		}
		if code, body := s.get(t, flunders, map[string]string{"Authorization": "Bearer nonsense"}); code != http.StatusUnauthorized {
			t.Errorf("no token: %d %s", code, body)
		}
		in("create", "role", "fishing", "--verb=get,list", "--resource=flunders.wardle.example.com")
		in("create", "rolebinding", "fishing", "--role=fishing", "--serviceaccount="+ns+":fisher")
		eventually(t, func(context.Context) error {
			if r := e.try(t, "-n", ns, "get", "flunders", as); r.err != nil {
				return errors.New(r.stderr)
			}
			if code, body := s.get(t, flunders, bearer); code != http.StatusOK { // it remembers what it asked for 10 seconds
				return fmt.Errorf("past the kernel: %d %s", code, body)
			}
			return nil
		})
		refused("Forbidden", "delete", "flunder", "none", as)
	})

	t.Run("controllers", func(t *testing.T) {
		in("create", "namespace", "pond")
		e.apply(t, "pond", "{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: swims}}")
		in("delete", "namespace", "pond", "--timeout=60s")
		if out := in("get", "flunders", "-A"); strings.Contains(out, "swims") {
			t.Errorf("the namespace is gone, and of it there is:\n%s", out)
		}
		in("create", "configmap", "owner")
		uid := in("get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
		e.apply(t, ns, "{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: owned, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: "+uid+"}]}}")
		uid = in("get", "flunder", "owned", "-o", "jsonpath={.metadata.uid}")
		e.apply(t, ns, "{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, ownerReferences: [{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, name: owned, uid: "+uid+"}]}}")
		in("delete", "configmap", "owner")
		eventually(t, func(context.Context) error {
			if out := in("get", "flunders") + in("get", "configmaps"); strings.Contains(out, "owned") {
				return errors.New(out)
			}
			return nil
		})
	})

	t.Run("away", func(t *testing.T) {
		in("delete", "endpointslice", "sample")
		available("False", "EndpointsNotFound")
		refused("EndpointsNotFound", "get", "--raw", "/apis/wardle.example.com/v1alpha1/flunders")
		contains(t, in("get", "serviceaccounts"), "fisher")
		// What cannot be listed cannot be known to be gone.
		in("create", "namespace", "lake")
		in("delete", "namespace", "lake", "--wait=false")
		eventually(t, func(context.Context) error {
			if out := in("get", "namespace", "lake", "-o", "yaml"); !strings.Contains(out, "DiscoveryFailed") || !strings.Contains(out, "wardle.example.com/v1alpha1") {
				return errors.New(out)
			}
			return nil
		})
		e.apply(t, ns, slice)
		available("True", ns+"/sample")
		in("wait", "--for=delete", "namespace/lake", "--timeout=60s")
		contains(t, in("delete", "apiservice", "v1alpha1.wardle.example.com"), "deleted")
		eventually(t, func(context.Context) error {
			if out := in("api-versions"); strings.Contains(out, "wardle") {
				return errors.New(out)
			}
			return nil
		})
	})
}
