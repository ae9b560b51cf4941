package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

const claimsSet = `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  persistentVolumeClaimRetentionPolicy: {whenScaled: Retain, whenDeleted: Delete}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}
      containers:
      - name: c
        image: BOX
        args: [serve]
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`

const retainedClaim = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: kept}
provisioner: pintle.dev/hostpath
reclaimPolicy: Retain
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kept}
spec: {accessModes: [ReadWriteOnce], storageClassName: kept, resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: BOX, volumeMounts: [{name: data, mountPath: /data, subPath: in/it}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: kept}}]
`

const ephemeralPod = `
apiVersion: v1
kind: Pod
metadata: {name: scratcher}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: BOX, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes:
  - name: data
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}}
`

// foreignVolume is written by hand in the provisioner's name, for a claim that is gone.
const foreignVolume = `
apiVersion: v1
kind: PersistentVolume
metadata:
  name: NAME
  annotations: {pv.kubernetes.io/provisioned-by: pintle.dev/hostpath}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Delete
  storageClassName: standard
  local: {path: PATH}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [NODE]}]}]}}
  claimRef: {namespace: default, name: gone, uid: 0a1b2c3d-0000-4000-8000-00000000dead}
`

// volumeOf is the volume that a claim of the default namespace is bound to.
func (e *env) volumeOf(t *testing.T, claim string) *corev1.PersistentVolume {
	t.Helper()
	c, err := e.client.CoreV1().PersistentVolumeClaims("default").Get(bound(t), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pv, err := e.client.CoreV1().PersistentVolumes().Get(bound(t), c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("claim %s is %s of %q: %v", claim, c.Status.Phase, c.Spec.VolumeName, err)
	}
	return pv
}

func (e *env) awaitVolumePhase(t *testing.T, name string, phase corev1.PersistentVolumePhase) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		pv, err := e.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && pv.Status.Phase != phase {
			err = fmt.Errorf("volume %s is %s", name, pv.Status.Phase)
		}
		return err
	})
}

func (e *env) awaitFile(t *testing.T, pod, file, want string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		r := e.try(t, "exec", pod, "--", "/box", "cat", file)
		if r.err != nil || r.stdout != want {
			return fmt.Errorf("%s in %s: %q, want %q: %s", file, pod, r.stdout, want, r.stderr)
		}
		return nil
	})
}

// TestClaims: a stateful set's pods find their data again after they were killed, scaled away and back, and after the
// kernel was killed (SS-3, PV-1); released volumes go or stay as their class says; and a volume that a user writes in the
// provisioner's name has no file removed.
func TestClaims(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "claims", Config: "configs/standalone.yaml"})
	e := start()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.try(t, "get", "pods,pvc,pv,sc,events", "-A", "-o", "wide").stdout)
		}
	})
	e.awaitAccount(t, "default")
	eventually(t, func(ctx context.Context) error {
		class, err := e.client.StorageV1().StorageClasses().Get(ctx, "standard", metav1.GetOptions{})
		if err == nil && class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			err = fmt.Errorf("not the default: %v", class.Annotations)
		}
		return err
	})
	e.kubectl(t, "annotate", "storageclass", "standard", "mine=yes")
	e.apply(t, "default", strings.ReplaceAll(claimsSet, "BOX", box))
	e.kubectl(t, "rollout", "status", "statefulset/db", "--timeout=120s")
	for _, pod := range []string{"db-0", "db-1"} {
		e.kubectl(t, "exec", pod, "--", "/box", "write", "/data/file", "of "+pod)
	}
	volumes := []*corev1.PersistentVolume{e.volumeOf(t, "data-db-0"), e.volumeOf(t, "data-db-1")}
	for i, pv := range volumes {
		data, err := os.ReadFile(filepath.Join(pv.Spec.Local.Path, "file"))
		if err != nil || string(data) != fmt.Sprintf("of db-%d\n", i) || pv.Status.Phase != corev1.VolumeBound {
			t.Fatalf("volume %s, %s: %q, %v", pv.Name, pv.Status.Phase, data, err)
		}
	}

	killed := e.awaitPod(t, "default", "db-0", isReady)
	e.kubectl(t, "delete", "pod", "db-0")
	e.awaitPod(t, "default", "db-0", func(p *corev1.Pod) error {
		if p.UID == killed.UID {
			return errors.New("it is the one that was killed")
		}
		return isReady(p)
	})
	e.awaitFile(t, "db-0", "/data/file", "of db-0\n")

	e.kubectl(t, "scale", "statefulset/db", "--replicas=1")
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().Pods("default").Get(ctx, "db-1", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("db-1 is still there"))
	})
	if pv := e.volumeOf(t, "data-db-1"); pv.Status.Phase != corev1.VolumeBound {
		t.Errorf("scaled away, the volume is %s", pv.Status.Phase)
	}
	e.kubectl(t, "scale", "statefulset/db", "--replicas=2")
	e.awaitPod(t, "default", "db-1", isReady)
	e.awaitFile(t, "db-1", "/data/file", "of db-1\n")

	e.Kill()
	e = start()
	e.awaitPod(t, "default", "db-0", isReady)
	e.awaitFile(t, "db-0", "/data/file", "of db-0\n")
	if class, err := e.client.StorageV1().StorageClasses().Get(bound(t), "standard", metav1.GetOptions{}); err != nil || class.Annotations["mine"] != "yes" {
		t.Errorf("the class after a restart: %+v, %v", class, err)
	}

	e.ephemeral(t)
	e.retained(t)
	e.foreign(t, volumes[0])

	e.kubectl(t, "delete", "statefulset", "db", "--timeout=120s")
	for _, pv := range volumes {
		e.awaitRemoved(t, pv)
	}
}

// ephemeral: a pod's own volume is made with it, and its data goes with it.
func (e *env) ephemeral(t *testing.T) {
	t.Helper()
	e.apply(t, "default", strings.ReplaceAll(ephemeralPod, "BOX", box))
	e.awaitPod(t, "default", "scratcher", isReady)
	e.kubectl(t, "exec", "scratcher", "--", "/box", "write", "/data/file", "scratch")
	pv := e.volumeOf(t, "scratcher-data")
	if data, err := os.ReadFile(filepath.Join(pv.Spec.Local.Path, "file")); err != nil || string(data) != "scratch\n" {
		t.Errorf("ephemeral: %q, %v", data, err)
	}
	e.kubectl(t, "delete", "pod", "scratcher")
	e.awaitRemoved(t, pv)
}

// awaitRemoved waits for the end of a volume, and of its data on this machine.
func (e *env) awaitRemoved(t *testing.T, pv *corev1.PersistentVolume) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		now, err := e.client.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(err, fmt.Errorf("volume %s is %s", pv.Name, now.Status.Phase))
		}
		if _, err := os.Lstat(pv.Spec.Local.Path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("its data is still there: %v", err)
		}
		return nil
	})
}

// retained: a volume of a class that says so keeps its data when its claim, and when itself, is deleted.
func (e *env) retained(t *testing.T) {
	t.Helper()
	e.apply(t, "default", strings.ReplaceAll(retainedClaim, "BOX", box))
	e.awaitPod(t, "default", "keeper", isReady)
	e.kubectl(t, "exec", "keeper", "--", "/box", "write", "/data/file", "kept")
	pv := e.volumeOf(t, "kept")
	e.kubectl(t, "delete", "pod/keeper", "pvc/kept", "--timeout=120s")
	e.awaitVolumePhase(t, pv.Name, corev1.VolumeReleased)
	e.kubectl(t, "delete", "pv", pv.Name, "--timeout=120s")
	if data, err := os.ReadFile(filepath.Join(pv.Spec.Local.Path, "in/it/file")); err != nil || string(data) != "kept\n" {
		t.Errorf("retained: %q, %v", data, err)
	}
}

// foreign: a volume by hand, with the provisioner's annotation, and a request to the node by hand, remove nothing that
// the provisioner did not make, and nothing that a pod has.
func (e *env) foreign(t *testing.T, used *corev1.PersistentVolume) {
	t.Helper()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := errors.Join(os.MkdirAll(victim, 0o755), os.WriteFile(filepath.Join(victim, "file"), []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	node := e.awaitPod(t, "default", "db-0", isReady).Spec.NodeName
	for name, path := range map[string]string{
		"evil": victim, "pvc-0a1b2c3d-0000-4000-8000-00000000dead": victim, "other": used.Spec.Local.Path, "all": filepath.Dir(used.Spec.Local.Path),
	} {
		e.apply(t, "default", strings.NewReplacer("NAME", name, "PATH", path, "NODE", used.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]).Replace(foreignVolume))
		e.awaitVolumePhase(t, name, corev1.VolumeReleased)
		eventually(t, func(ctx context.Context) error {
			list, err := e.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name + ",reason=VolumeFailedDelete"})
			if err == nil && len(list.Items) == 0 {
				err = fmt.Errorf("no event says that %s is not deleted", name)
			}
			return err
		})
	}
	for _, name := range []string{used.Name, "..%2F..%2Fpki", "pki"} {
		err := e.client.CoreV1().RESTClient().Delete().AbsPath("/api/v1/nodes/" + node + "/proxy/localvolumes/" + name).Do(bound(t)).Error()
		if err == nil {
			t.Errorf("the node removed %s", name)
		}
	}
	for _, file := range []string{filepath.Join(victim, "file"), filepath.Join(used.Spec.Local.Path, "file")} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}
