package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestNetworkKinds: kubectl makes, shows, changes and deletes ingresses, network
// policies, autoscalers and certificate requests where nothing acts on them.
func TestNetworkKinds(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	e := launched(t, cluster.Options{Name: "networkkinds", Config: bareConfig(t)})
	ns := e.namespace(t)
	in, refused := e.within(t, ns)
	e.apply(t, ns, `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: public, annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}
spec: {controller: example.com/proxy}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}]}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: fast}
driverName: disks.example.com
parameters: {iops: "100"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "box:1"}]}}}
`)

	t.Run("ingresses", func(t *testing.T) {
		contains(t, in("get", "ingressclass"), "public (default)", "example.com/proxy", "<none>")
		contains(t, in("create", "ingress", "site", "--rule=a.example.com/*=web:80,tls=cert"), "ingress.networking.k8s.io/site created")
		if out := in("get", "ing"); !regexp.MustCompile(`(?m)^site +public +a\.example\.com +80, 443 `).MatchString(out) {
			t.Errorf("ingresses:\n%s", out)
		}
		contains(t, in("describe", "ingress", "site"), "Ingress Class:    public", "a.example.com", "web:80", "cert terminates a.example.com")
		in("patch", "ingress", "site", "--subresource=status", "--type=merge", "-p", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`)
		contains(t, in("get", "ing", "site"), "192.0.2.7")
		refused("must be an absolute path", "patch", "ingress", "site", "--type=json", "-p", `[{"op":"replace","path":"/spec/rules/0/http/paths/0/path","value":"a"}]`)
		contains(t, in("annotate", "ingress", "site", "kubernetes.io/ingress.class=other"), "annotated")
	})
	t.Run("policies", func(t *testing.T) {
		contains(t, in("get", "netpol"), "POD-SELECTOR", "app=web")
		contains(t, in("describe", "networkpolicy", "closed"), "Allowing ingress traffic:", "To Port: 80/TCP", "Not affecting egress traffic", "Policy Types: Ingress")
		contains(t, in("get", "vac"), "DRIVERNAME", "disks.example.com")
		refused("updates to parameters are forbidden.", "patch", "vac", "fast", "--type=merge", "-p", `{"parameters":{"iops":"200"}}`)
	})
	t.Run("autoscalers", func(t *testing.T) {
		contains(t, in("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu=70%"), "horizontalpodautoscaler.autoscaling/web autoscaled")
		if out := in("get", "hpa"); !regexp.MustCompile(`(?m)^web +Deployment/web +cpu: <unknown>/70% +2 +5 +0 `).MatchString(out) {
			t.Errorf("autoscalers:\n%s", out)
		}
		contains(t, in("get", "horizontalpodautoscalers.v1.autoscaling", "web", "-o", "yaml"), "apiVersion: autoscaling/v1", "targetCPUUtilizationPercentage: 70")
		contains(t, in("get", "hpa", "web", "-o", "yaml"), "apiVersion: autoscaling/v2", "averageUtilization: 70")
		contains(t, in("describe", "hpa", "web"), "Min replicas:", "Max replicas:", "5", "Deployment pods:")
		contains(t, in("get", "all"), "horizontalpodautoscaler.autoscaling/web")
		refused("must be greater than or equal to `minReplicas`", "patch", "hpa", "web", "--type=merge", "-p", `{"spec":{"maxReplicas":1}}`)
	})
	t.Run("server side apply of both versions", func(t *testing.T) {
		write := func(name, text string) string {
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		}
		old := write("v1.json", `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"applied"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"maxReplicas":4,"targetCPUUtilizationPercentage":50}}`)
		contains(t, in("apply", "--server-side", "--field-manager=one", "-f", old), "serverside-applied")
		now := write("v2.json", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"applied"},"spec":{"maxReplicas":6}}`)
		refused(`conflict with "one": .spec.maxReplicas`, "apply", "--server-side", "--field-manager=two", "-f", now)
		contains(t, in("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", now), "serverside-applied")
		contains(t, in("get", "hpa", "applied", "-o", "yaml"), "maxReplicas: 6", "averageUtilization: 50")
	})
	t.Run("certificate requests", func(t *testing.T) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "alice"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		asked := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		for _, name := range []string{"good", "bad"} {
			e.apply(t, ns, fmt.Sprintf("{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: %s}, spec: {request: %s, signerName: example.com/s, expirationSeconds: 86400, usages: [client auth]}}", name, asked))
		}
		contains(t, in("get", "csr"), "SIGNERNAME", "REQUESTOR", "REQUESTEDDURATION", "24h", "Pending")
		contains(t, in("certificate", "approve", "good"), "certificatesigningrequest.certificates.k8s.io/good approved")
		contains(t, in("certificate", "deny", "bad"), "certificatesigningrequest.certificates.k8s.io/bad denied")
		refused("already Denied", "certificate", "approve", "bad")
		contains(t, in("get", "csr", "good"), "Approved")
		contains(t, in("get", "csr", "bad"), "Denied")
		contains(t, in("describe", "csr", "good"), "Common Name:", "alice", "Signer:", "example.com/s")
	})
	t.Run("explained", func(t *testing.T) {
		for path, word := range map[string]string{
			"ingress.spec.rules.http": "pathType", "ingressclass.spec": "controller", "networkpolicy.spec.egress.to": "ipBlock",
			"hpa.spec.behavior": "scaleDown", "csr.spec": "expirationSeconds", "vac": "driverName",
		} {
			contains(t, e.kubectl(t, "explain", "--recursive", path), word)
		}
		contains(t, e.kubectl(t, "explain", "hpa.spec", "--api-version=autoscaling/v1"), "targetCPUUtilizationPercentage")
	})
	t.Run("rights", func(t *testing.T) {
		in("create", "rolebinding", "viewer", "--clusterrole=view", "--user=viewer")
		in("create", "rolebinding", "editor", "--clusterrole=edit", "--user=editor")
		for _, kind := range []string{"ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "horizontalpodautoscalers.autoscaling"} {
			for user, may := range map[string]string{"viewer": "no", "editor": "yes"} {
				if out := e.try(t, "-n", ns, "auth", "can-i", "create", kind, "--as="+user); strings.TrimSpace(out.stdout) != may {
					t.Errorf("%s may create %s: %s", user, kind, out.stdout)
				}
				in("get", kind, "--as="+user)
			}
			refused("forbidden", "get", kind, "--as=nobody")
		}
		refused("forbidden", "certificate", "approve", "good", "--as=editor")
	})
	t.Run("quota", func(t *testing.T) {
		in("create", "quota", "q", "--hard=count/ingresses.networking.k8s.io=1,count/horizontalpodautoscalers.autoscaling=9")
		eventually(t, func(ctx context.Context) error {
			q, err := e.client.CoreV1().ResourceQuotas(ns).Get(ctx, "q", metav1.GetOptions{})
			if err == nil && (q.Status.Used.Name("count/ingresses.networking.k8s.io", "").String() != "1" || q.Status.Used.Name("count/horizontalpodautoscalers.autoscaling", "").String() != "2") {
				err = fmt.Errorf("used: %v", q.Status.Used)
			}
			return err
		})
		refused("exceeded quota: q", "create", "ingress", "second", "--rule=b.example.com/=web:80")
	})
	t.Run("end", func(t *testing.T) {
		e.kubectl(t, "delete", "namespace", ns, "--timeout=100s")
		if out := strings.TrimSpace(e.kubectl(t, "get", "ingresses,networkpolicies,hpa", "-A", "-o", "name")); out != "" {
			t.Errorf("left of the namespace: %s", out)
		}
	})
}
