package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pintle.dev/pintle/e2e/cluster"
)

// withSample is a configuration with Kubernetes' sample of an aggregated API server as a
// plugin, whose objects an etcd has.
func withSample(t *testing.T, etcd string) string {
	t.Helper()
	program, err := buildTool("sample-plugin", "./e2e/sampleplugin", "")
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	dir := filepath.Join(catalog, "sample-apiserver")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, program, filepath.Join(dir, "sample-apiserver"))
	copyFile(t, "sampleplugin/manifest.yaml", filepath.Join(dir, "manifest.yaml"))
	if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
		t.Fatalf("seal: %v\n%s", err, text)
	}
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	text := strings.Replace(read(t, bareConfig(t)), "  bundles:\n", fmt.Sprintf(`  directories: [%s, %s]
  bundles:
  - {name: sample-apiserver, network: true, config: {sample-apiserver: {etcdServers: [%q]}}}
`, own, catalog, etcd), 1) + "apiServers: {enabled: [sample-apiserver]}\n"
	return write(t, filepath.Join(catalog, "pintle.yaml"), text)
}

// TestSampleAPIServerPlugin: the packages of Kubernetes' sample of an aggregated API server
// are a plugin, unmodified: no Service, no certificate, no kubeconfig, and no right but
// those of its manifest.
func TestSampleAPIServerPlugin(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	etcd, err := cluster.StartEtcd(t.Context(), nil, filepath.Join(t.TempDir(), "etcd"), false)
	if errors.Is(err, cluster.ErrNoEtcd) {
		skip(t, cluster.ErrNoEtcd.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	e := launched(t, cluster.Options{Name: "sample-plugin", Config: withSample(t, etcd.URL)})
	ns := e.namespace(t)
	in, refused := e.within(t, ns)
	flunder := func(name, more string) string {
		return "{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {name: " + name + more + "}, spec: {reference: some}}"
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		eventually(t, func(context.Context) error {
			if out := e.try(t, "get", "apiservice", version+".wardle.example.com").stdout; !strings.Contains(out, "plugin/sample-apiserver") || !strings.Contains(out, "True") {
				return errors.New(out)
			}
			return nil
		})
	}

	t.Run("kubectl", func(t *testing.T) {
		eventually(t, func(context.Context) error {
			if r := e.try(t, "explain", "flunders.spec"); !strings.Contains(r.stdout, "KIND:       Flunder") || !strings.Contains(r.stdout, "referenceType") {
				return errors.New(r.stdout + r.stderr)
			}
			return nil
		})
		contains(t, in("api-resources", "--api-group=wardle.example.com"), "flunders", "fischers")
		e.apply(t, ns, flunder("one", ", labels: {a: b}"))
		contains(t, in("get", "flunders", "-l", "a=b"), "NAME", "one")
		contains(t, in("get", "flunder", "one", "-o", "yaml"), "reference: some", "referenceType: Flunder", "namespace: "+ns)
		// The same object in the other version, which the sample converts.
		contains(t, in("get", "flunders.v1beta1.wardle.example.com", "one", "-o", "yaml"), "flunderReference: some")
		contains(t, in("patch", "flunder", "one", "--type=merge", "-p", `{"spec":{"reference":"other"}}`), "patched")
		contains(t, in("describe", "flunder", "one"), "other")
		refused("NotFound", "get", "flunder", "none")
		e.awaitWatched(t, ns, "flunders", "one", "flunder.wardle.example.com/one")
		contains(t, in("delete", "flunder", "one"), "deleted")
	})

	// Its own admission plugin reads Fischers through the kernel.
	t.Run("admission", func(t *testing.T) {
		e.apply(t, "", "{apiVersion: wardle.example.com/v1alpha1, kind: Fischer, metadata: {name: ban}, disallowedFlunders: [banned]}")
		banned, tagged := writeFile(t, flunder("banned", "")), writeFile(t, flunder("tagged", ", labels: {tag: \"yes\"}"))
		refusedSoon := func(words, file string) {
			t.Helper()
			eventually(t, func(context.Context) error {
				r := e.try(t, "-n", ns, "create", "--dry-run=server", "-f", file)
				if r.err == nil || !strings.Contains(r.stderr, words) {
					return errors.New(r.stdout + r.stderr)
				}
				return nil
			})
		}
		refusedSoon("this name may not be used", banned)
		// And the policies of the cluster, which of an aggregated server it asks itself.
		e.apply(t, "", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-tags}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [wardle.example.com], apiVersions: ["*"], operations: [CREATE], resources: [flunders]}]}
  validations: [{expression: "!('tag' in object.metadata.?labels.orValue({}))", message: no tags here}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-tags}
spec: {policyName: no-tags, validationActions: [Deny]}
`)
		refusedSoon("no tags here", tagged)
		in("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "no-tags")
		in("delete", "fischer", "ban")
	})

	t.Run("rights", func(t *testing.T) {
		in("create", "serviceaccount", "fisher")
		as := "--as=system:serviceaccount:" + ns + ":fisher"
		refused("Forbidden", "get", "flunders", as)
		in("create", "role", "fishing", "--verb=get,list", "--resource=flunders.wardle.example.com")
		in("create", "rolebinding", "fishing", "--role=fishing", "--serviceaccount="+ns+":fisher")
		eventually(t, func(context.Context) error {
			if r := e.try(t, "-n", ns, "get", "flunders", as); r.err != nil {
				return errors.New(r.stderr)
			}
			return nil
		})
		refused("Forbidden", "delete", "flunder", "none", as)
		// The server itself may what its manifest says, and no more.
		for what, want := range map[string]string{
			"list fischers.wardle.example.com": "yes", "watch namespaces": "yes", "list validatingadmissionpolicies.admissionregistration.k8s.io": "yes",
			"delete fischers.wardle.example.com": "no", "list flunders.wardle.example.com": "no", "list secrets": "no", "create tokenreviews.authentication.k8s.io": "no",
		} {
			args := append([]string{"auth", "can-i", "--as=system:pintle:plugin:sample-apiserver", "-A"}, strings.Fields(what)...)
			if out := strings.TrimSpace(e.try(t, args...).stdout); out != want {
				t.Errorf("may it %s: %q, want %q", what, out, want)
			}
		}
	})

	t.Run("controllers", func(t *testing.T) {
		in("create", "namespace", "pond")
		e.apply(t, "pond", flunder("swims", ""))
		in("delete", "namespace", "pond", "--timeout=60s")
		if out := in("get", "flunders", "-A"); strings.Contains(out, "swims") {
			t.Errorf("the namespace is gone, and of it there is:\n%s", out)
		}
	})

	t.Run("killed", func(t *testing.T) {
		e.apply(t, ns, flunder("stays", ""))
		pid, err := strconv.Atoi(in("get", "plugin", "sample-apiserver", "-o", "jsonpath={.status.pid}"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(context.Context) error {
			if out := in("get", "plugin", "sample-apiserver", "-o", "jsonpath={.status.pid}"); out == strconv.Itoa(pid) {
				return errors.New("it is not started again")
			}
			if r := e.try(t, "-n", ns, "get", "flunders"); !strings.Contains(r.stdout, "stays") {
				return errors.New(r.stderr)
			}
			return nil
		})
	})
}
