package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

const volumeBindingConfig = `
apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
node: {enabled: false}
plugins:
  directories: [BIN]
  bundles:
  - name: modern
  - name: volumebinding
  - name: hollow
    privileged: true
scheduler:
  podInitialBackoff: 50ms
  podMaxBackoff: 500ms
  profiles:
  - schedulerName: default-scheduler
    preFilter: [VolumeRestrictionsPreFilter, VolumeBindingPreFilter, VolumeZonePreFilter]
    predicates: [NodeUnschedulable, NodeResourcesFit, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone, DynamicResources]
    priorities: [{name: NodeResourcesFitScore}]
    reserve: [VolumeBindingReserve]
    preBind: [VolumeBindingPreBind]
controllers: {enabled: []}
hollow: {runtime: hollow, nodes: 3}
`

// localVolumes are two classes that wait for the first pod, and a local volume.
const localVolumes = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies:
- matchLabelExpressions: [{key: kubernetes.io/hostname, values: [hollow-2]}]
`

func localVolume(name, node string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /mnt/%[1]s}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [%s]}]
---
`, name, node)
}

func claimed(name, class string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec: {accessModes: [ReadWriteOnce], storageClassName: %s, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  containers: [{name: c, image: none, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: %[1]s}}]
---
`, name, class)
}

// TestVolumeBinding: a pod whose claim waits for its first consumer goes where a
// volume is, the scheduler writes the claim into the volume, and binds the pod when
// the claim is bound, until when the pod's status names its node; a second pod does not get the volume; a claim of a class with
// a provisioner is told its node; and a pod with resource claims is refused.
//
// The controller of persistent volumes is not there: the test does its part, which
// is that volumes become Available, and that claims are bound to the volumes that
// name them.
func TestVolumeBinding(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := strings.ReplaceAll(volumeBindingConfig, "BIN", filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := private(t, cluster.Options{Name: "volumebinding", Config: config, Data: t.TempDir()})
	core := e.client.CoreV1()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.try(t, "get", "pods,pvc,pv,events", "-A", "-o", "wide").stdout)
		}
	})
	eventually(t, func(ctx context.Context) error {
		nodes, err := core.Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && len(nodes.Items) != 3 {
			err = fmt.Errorf("%d nodes", len(nodes.Items))
		}
		return err
	})
	available := func(name string) {
		t.Helper()
		pv, err := core.PersistentVolumes().Get(bound(t), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pv.Status.Phase = corev1.VolumeAvailable
		if _, err := core.PersistentVolumes().UpdateStatus(bound(t), pv, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// complete does what the controller does once a volume names a claim.
	complete := func(claim, volume string) {
		t.Helper()
		c, err := core.PersistentVolumeClaims("default").Get(bound(t), claim, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c.Spec.VolumeName = volume
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		if c, err = core.PersistentVolumeClaims("default").Update(bound(t), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.Status.Phase = corev1.ClaimBound
		if _, err = core.PersistentVolumeClaims("default").UpdateStatus(bound(t), c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	promised := func(volume, claim string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			pv, err := core.PersistentVolumes().Get(ctx, volume, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if r := pv.Spec.ClaimRef; r == nil || r.Name != claim || r.Namespace != "default" || r.UID == "" || pv.Annotations["pv.kubernetes.io/bound-by-controller"] != "yes" {
				return fmt.Errorf("volume %s is promised to %v, annotations %v", volume, r, pv.Annotations)
			}
			return nil
		})
	}
	on := func(pod, node string) {
		t.Helper()
		e.awaitPod(t, "default", pod, func(p *corev1.Pod) error {
			if p.Spec.NodeName != node || p.Status.NominatedNodeName != "" {
				return fmt.Errorf("on %q, nominated to %q, want %s: %v", p.Spec.NodeName, p.Status.NominatedNodeName, node, p.Status.Conditions)
			}
			return nil
		})
	}
	// unbound: the pod says where it is expected, and is not there.
	unbound := func(pod, node string) {
		t.Helper()
		p, err := core.Pods("default").Get(bound(t), pod, metav1.GetOptions{})
		if err != nil || p.Spec.NodeName != "" || p.Status.NominatedNodeName != node {
			t.Fatalf("pod %s is on %q and nominated to %q before its claim is bound, want %s: %v", pod, p.Spec.NodeName, p.Status.NominatedNodeName, node, err)
		}
	}

	e.apply(t, "default", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n---\n"+localVolumes)
	contains(t, e.kubectl(t, "get", "sc"), "PROVISIONER", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
	e.apply(t, "default", localVolume("first", "hollow-1"))
	available("first")

	e.apply(t, "default", claimed("one", "local"))
	promised("first", "one")
	unbound("one", "hollow-1")
	// Nobody else gets the volume, though the claim is not bound yet.
	e.apply(t, "default", claimed("two", "local"))
	e.refused(t, "two", "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.")
	complete("one", "first")
	on("one", "hollow-1")

	// A volume that comes brings the pod back, and with no word from anybody else.
	e.apply(t, "default", localVolume("second", "hollow-0"))
	available("second")
	promised("second", "two")
	complete("two", "second")
	on("two", "hollow-0")

	// A volume that is to be made: the claim is told the node, again if it comes to
	// nothing, and the pod waits for both.
	e.apply(t, "default", claimed("three", "made"))
	told := func() {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			c, err := core.PersistentVolumeClaims("default").Get(ctx, "three", metav1.GetOptions{})
			if err == nil && c.Annotations["volume.kubernetes.io/selected-node"] != "hollow-2" {
				err = fmt.Errorf("annotations %v", c.Annotations)
			}
			return err
		})
	}
	told()
	c, err := core.PersistentVolumeClaims("default").Get(bound(t), "three", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(c.Annotations, "volume.kubernetes.io/selected-node")
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, "test", "provisioning failed")
	if _, err := core.PersistentVolumeClaims("default").Update(bound(t), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.refused(t, "three", `provisioning failed for PVC "three"`)
	told()
	unbound("three", "hollow-2")
	e.apply(t, "default", strings.Replace(localVolume("third", "hollow-2"), "storageClassName: local", "storageClassName: made", 1))
	complete("three", "third")
	on("three", "hollow-2")

	e.apply(t, "default", `
apiVersion: v1
kind: Pod
metadata: {name: devices}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  containers: [{name: c, image: none, resources: {claims: [{name: gpu}]}}]
`)
	e.refused(t, "devices", "3 node(s) cannot allocate resource claims: this scheduler allocates no devices")
	e.apply(t, "default", strings.Split(claimed("lost", "missing"), "---\n")[1])
	e.refused(t, "lost", `0/3 nodes are available: persistentvolumeclaim "lost" not found.`)
}
