package kernel

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/node"
)

// hollowCIDRBits is the size of a hollow node's range of pod IPs: with 126
// addresses it holds the 110 pods that such a node takes.
const hollowCIDRBits = 25

// startHollow runs simulated nodes: real agents over a runtime that runs
// nothing, with one pod source, one service cache, one connection and one
// event broadcaster for all.
func (k *Kernel) startHollow(ctx context.Context, cfg *config.Config) error {
	endpoint, err := k.startRuntime(ctx, cfg, cfg.Hollow.Runtime, "", config.HollowPodRange)
	if err != nil {
		return err
	}
	calls := make(share, hollowShare)
	conn, err := grpc.NewClient("unix://"+endpoint.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(calls.intercept))
	if err != nil {
		return fmt.Errorf("hollow nodes: %w", err)
	}
	client, _, err := k.client(hostIdentity)
	if err != nil {
		return err
	}
	pods, err := k.api.Source(corev1.SchemeGroupVersion.WithResource("pods"), node.BoundPods())
	if err != nil {
		return err
	}
	source := node.NewPodSourceFrom(pods)
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services().Lister()
	broadcaster := record.NewBroadcaster()
	requests := make(share, hollowShare)
	rounds := newTurns(k.api.InFlight)
	ranges, err := claimHollowRanges(ctx, client, cfg.Hollow.Prefix, cfg.Hollow.Nodes)
	if err != nil {
		return err
	}
	var agents []*node.Agent
	for i, own := range ranges {
		name := fmt.Sprintf("%s%d", cfg.Hollow.Prefix, i)
		rc := k.api.ClientConfig(nodeIdentity(name))
		rc.Wrap(requests.wrap)
		agentClient, err := kubernetes.NewForConfig(rc)
		if err != nil {
			return fmt.Errorf("hollow node %s: client: %w", name, err)
		}
		agent, err := node.New(node.Config{
			NodeName: name, PodCIDR: own.podCIDR, Labels: map[string]string{api.HollowLabel: "true"}, RuntimeName: cfg.Hollow.Runtime,
			RootDir: filepath.Join(k.dirs.data, "hollow", name), Port: -1, NodeIP: hollowIP(own.number).String(),
			EventedRelistPeriod: 5 * time.Minute, RelistPeriod: 5 * time.Minute, StatusUpdate: 5 * time.Minute, KubeletVersion: api.GitVersion, ResyncPeriod: 10 * time.Minute, ImageGCHigh: 100,
			SkipVolumes: true, // nothing reads them
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
				corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("110"),
			},
		}, node.Deps{
			Client: agentClient, Pods: source, Services: services, CRI: ranged{conn, own.podCIDR}, Events: broadcaster, Turn: rounds.wait,
			Logger: k.log.With("part", "node"),
		})
		if err != nil {
			return fmt.Errorf("hollow node %s: %w", name, err)
		}
		agents = append(agents, agent)
	}
	k.parts.start("hollow nodes", func(ctx context.Context) error {
		defer conn.Close()
		defer broadcaster.Shutdown()
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		cache.WaitForCacheSync(ctx.Done(), factory.Core().V1().Services().Informer().HasSynced)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { _ = source.Run(ctx) })
		wg.Go(func() { rounds.run(ctx) })
		for _, a := range agents {
			wg.Go(func() {
				if err := a.Run(ctx); err != nil && ctx.Err() == nil {
					k.log.Error("hollow node ended", "error", err)
				}
			})
		}
		<-ctx.Done()
		return nil
	}, nil)
	for _, a := range agents {
		if err := k.await(ctx, a.Ready()); err != nil {
			return err
		}
	}
	k.step("hollow", "%d simulated nodes: no container runs on them", len(agents))
	return nil
}

// ranged tells the runtime in each call which range of pod IPs the node has.
// CRI says it once (UpdateRuntimeConfig), which a runtime that keeps nothing
// has forgotten when its process was started again.
type ranged struct {
	grpc.ClientConnInterface
	podCIDR string
}

func (r ranged) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "pintle-pod-cidr", r.podCIDR)
	return r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}
