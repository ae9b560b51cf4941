package hostpath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/volume"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/localvolumes"
)

// workers is how many claims, and how many volumes, are worked on at once.
const workers = 2

// askTime is how long one request to a node's agent may take. It is more than an agent works on one request, and
// waits for another.
const askTime = time.Minute

// Config is the provisioner's configuration.
type Config struct {
	// StorageClass is made at the start unless it is there, as the default class unless another is; empty: none is.
	StorageClass string `json:"storageClass"`
}

func readConfig(data []byte) (Config, error) {
	var c Config
	if err := settings.Read(data, &c); err != nil {
		return c, err
	}
	if c.StorageClass != "" {
		if faults := validation.NameIsDNSSubdomain(c.StorageClass, false); len(faults) > 0 {
			return c, fmt.Errorf("configuration: storageClass: %q: %s", c.StorageClass, faults[0])
		}
	}
	return c, nil
}

// New builds the provisioner. Its configuration is Config as JSON.
func New(c *controller.Context) (controller.Runner, error) {
	cfg, err := readConfig(c.Config)
	if err != nil {
		return nil, err
	}
	return build(c.Client, c.Informers, cfg, c.Logger), nil
}

type keeper struct {
	client     kubernetes.Interface
	cfg        Config
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	nodes      corelisters.NodeLister
	classes    storagelisters.StorageClassLister
	claimLoop  *queue.Loop[string]
	volumeLoop *queue.Loop[string]
	classLoop  *queue.Loop[string]
	watches    []queue.Watch
	recorder   record.EventRecorder
	log        *slog.Logger
	// remove asks a node's agent to remove a volume, and says whether it is gone.
	remove func(ctx context.Context, node, volume string) (gone bool, err error)
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, cfg Config, log *slog.Logger) *keeper {
	claims, volumes := shared.Core().V1().PersistentVolumeClaims(), shared.Core().V1().PersistentVolumes()
	nodes, classes := shared.Core().V1().Nodes(), shared.Storage().V1().StorageClasses()
	k := &keeper{
		client: client, cfg: cfg, log: log,
		claims: claims.Lister(), volumes: volumes.Lister(), nodes: nodes.Lister(), classes: classes.Lister(),
	}
	k.remove = k.askNode
	k.claimLoop = queue.New(log, k.syncClaim, queue.Options[string]{Name: "hostpath-claims", Workers: workers})
	k.volumeLoop = queue.New(log, k.syncVolume, queue.Options[string]{Name: "hostpath-volumes", Workers: workers})
	k.classLoop = queue.New(log, k.makeClass, queue.Options[string]{})
	k.watches = []queue.Watch{
		{Informer: claims.Informer(), Handler: queue.On(k.claimChanged)},
		{Informer: volumes.Informer(), Handler: queue.On(k.volumeChanged)},
		{Informer: nodes.Informer()},
		{Informer: classes.Informer(), Handler: queue.On(k.classChanged)},
	}
	return k
}

// Run works until ctx ends.
func (k *keeper) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, k.client, localvolumes.Provisioner)
	defer stop()
	k.recorder = recorder
	if k.cfg.StorageClass != "" {
		k.classLoop.Add(k.cfg.StorageClass)
	}
	return queue.Follow(ctx, k.watches, k.classLoop, k.claimLoop, k.volumeLoop)
}

func (k *keeper) claimChanged(_, claim *corev1.PersistentVolumeClaim) {
	if claim != nil && asksFor(claim) {
		k.claimLoop.Add(queue.Key(claim))
	}
}

func (k *keeper) volumeChanged(_, pv *corev1.PersistentVolume) {
	if pv != nil && isOurs(pv) {
		k.volumeLoop.Add(pv.Name)
	}
}

// classChanged has the claims of a class looked at: what was refused may be possible now.
func (k *keeper) classChanged(_, class *storagev1.StorageClass) {
	if class == nil || class.Provisioner != localvolumes.Provisioner {
		return
	}
	claims, err := k.claims.List(labels.Everything())
	if err != nil {
		k.log.Error("claims of a storage class are not looked at", "storageClass", class.Name, "error", err)
		return
	}
	for _, claim := range claims {
		if asksFor(claim) && volume.GetPersistentVolumeClaimClass(claim) == class.Name {
			k.claimLoop.Add(queue.Key(claim))
		}
	}
}

// askNode has the agent of a node remove a volume, with the right delete on nodes/proxy. An agent that does not
// answer in askTime is an error: it must not keep a worker from the volumes of other nodes.
func (k *keeper) askNode(ctx context.Context, node, volume string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var code int
	err := k.client.CoreV1().RESTClient().Delete().Resource("nodes").Name(node).SubResource("proxy").
		Suffix(localvolumes.RemovePath(volume)).Do(ctx).StatusCode(&code).Error()
	if err != nil {
		return false, fmt.Errorf("node %s: %w", node, cause(err))
	}
	return code != accepted, nil
}

// accepted is the answer of an agent that has not come to the end.
const accepted = 202

// cause is what an agent wrote about a refusal, where it wrote anything: the error of client-go has it among its
// details only.
func cause(err error) error {
	var status interface{ Status() metav1.Status }
	if errors.As(err, &status) {
		if d := status.Status().Details; d != nil {
			for _, c := range d.Causes {
				if c.Message != "" {
					return fmt.Errorf("%w: %s", err, c.Message)
				}
			}
		}
	}
	return err
}
