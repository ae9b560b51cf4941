package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// judge is kube-scheduler's framework over one cluster.
type judge struct {
	framework.Framework
	snapshot *cache.Snapshot
	nodes    []fwk.NodeInfo // in the snapshot's order
	plugins  map[string]fwk.Plugin
	weights  map[string]int64
	stop     func()
}

// newJudge makes the framework as kube-scheduler does, with the default profile
// and the cluster's configuration of plugins.
func newJudge(ctx context.Context, c *cluster) (_ *judge, err error) {
	ctx, cancel := context.WithCancel(ctx)
	j := &judge{plugins: map[string]fwk.Plugin{}, weights: map[string]int64{}}
	profile, err := profileOf(c)
	if err != nil {
		cancel()
		return nil, err
	}
	var objects []runtime.Object
	for _, n := range c.Nodes {
		objects = append(objects, n)
	}
	for _, p := range slices.Concat(c.Pods, c.Ask) {
		objects = append(objects, p)
	}
	objects = append(objects, c.Objects...)
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	registry := plugins.NewInTreeRegistry()
	for name, make := range registry {
		registry[name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			p, err := make(ctx, args, h)
			j.plugins[name] = p
			return p, err
		}
	}
	scheduled := cache.New(ctx, nil, false)
	j.snapshot = cache.NewEmptySnapshot()
	dra, err := newDRAManager(ctx, client, factory)
	if err != nil {
		cancel()
		return nil, err
	}
	j.Framework, err = frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(j.snapshot), frameworkruntime.WithPodNominator(nobody{}),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()), frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithSharedDRAManager(dra), frameworkruntime.WithPodGroupManager(scheduled),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithParallelism(1), frameworkruntime.WithLogger(klog.FromContext(ctx)),
	)
	if err != nil {
		cancel()
		return nil, err
	}
	j.stop = func() {
		cancel()
		_ = j.Close()
		factory.Shutdown()
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			j.stop()
			return nil, fmt.Errorf("the cache of %v did not fill", kind)
		}
	}
	for _, n := range c.Nodes {
		scheduled.AddNode(klog.FromContext(ctx), n)
	}
	for _, p := range c.Pods {
		if err := scheduled.AddPod(klog.FromContext(ctx), p); err != nil {
			j.stop()
			return nil, err
		}
	}
	if err := scheduled.UpdateSnapshot(klog.FromContext(ctx), j.snapshot); err != nil {
		j.stop()
		return nil, err
	}
	j.nodes, err = j.snapshot.List()
	return j, err
}

// profileOf is the default profile, with the cluster's arguments of plugins.
func profileOf(c *cluster) (*config.KubeSchedulerProfile, error) {
	versioned := kubeschedulerv1.KubeSchedulerConfiguration{}
	document := map[string]any{
		"apiVersion": kubeschedulerv1.SchemeGroupVersion.String(), "kind": "KubeSchedulerConfiguration",
		"profiles": []any{map[string]any{"schedulerName": v1.DefaultSchedulerName, "pluginConfig": c.Config}},
	}
	data, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.ID, err)
	}
	cfg, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s: the configuration is a %T, not made from %T", c.ID, object, versioned)
	}
	return &cfg.Profiles[0], nil
}

// answer asks about one pod.
func (j *judge) answer(ctx context.Context, pod *v1.Pod, dryRun bool) *answer {
	a := &answer{}
	state := framework.NewCycleState()
	narrowed, status, by := j.RunPreFilterPlugins(ctx, state, pod)
	var statuses *framework.NodeToStatus
	message := func(preFilter string) string {
		return (&framework.FitError{Pod: pod, NumAllNodes: len(j.nodes), Diagnosis: framework.Diagnosis{NodeToStatus: statuses, PreFilterMsg: preFilter}}).Error()
	}
	switch {
	case status.IsSuccess():
	case status.IsRejected():
		a.Whole = refusal(status)
		statuses = framework.NewNodeToStatus(map[string]*fwk.Status{}, status)
		a.Message = message(status.Message())
		if dryRun {
			a.Preemption = j.preempt(ctx, state, pod, statuses)
		}
		return a
	default:
		a.Error = status.Message()
		return a
	}
	statuses = framework.NewDefaultNodeToStatus()
	if !narrowed.AllNodes() {
		statuses.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by))))
	}
	var fit []fwk.NodeInfo
	for _, n := range j.nodes {
		name := n.Node().Name
		first := true
		for _, p := range j.ListPlugins().Filter.Enabled {
			filter := j.plugins[p.Name].(fwk.FilterPlugin)
			if state.GetSkipFilterPlugins().Has(p.Name) {
				continue
			}
			status := filter.Filter(ctx, state, pod, n)
			if status.IsSuccess() {
				continue
			}
			if !status.IsRejected() {
				if first { // what comes after a refusal is never asked
					a.Error = fmt.Sprintf("%s: %s: %s", name, p.Name, status.Message())
					return a
				}
				continue
			}
			put(&a.Refusals, name, p.Name, refusal(status))
			if first {
				if a.First == nil {
					a.First = map[string]string{}
				}
				a.First[name] = p.Name
				if first = false; narrowed.AllNodes() || narrowed.NodeNames.Has(name) {
					statuses.Set(name, status)
				}
			}
		}
		if first {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		a.Message = message("")
		if dryRun {
			a.Preemption = j.preempt(ctx, state, pod, statuses)
		}
		return a
	}
	if status := j.RunPreScorePlugins(ctx, state, pod, fit); !status.IsSuccess() {
		a.Error = status.Message()
		return a
	}
	scores, status := j.RunScorePlugins(ctx, state, pod, fit)
	if !status.IsSuccess() {
		a.Error = status.Message()
		return a
	}
	for _, n := range scores {
		for _, s := range n.Scores {
			put(&a.Scores, s.Name, n.Name, s.Score/j.weight(s.Name))
		}
	}
	return a
}

func (j *judge) weight(plugin string) int64 {
	for _, p := range j.ListPlugins().Score.Enabled {
		if p.Name == plugin {
			return int64(p.Weight)
		}
	}
	return 1
}

// refusal sorts the reasons: their order can be that of a Go map.
func refusal(s *fwk.Status) *verdict {
	return &verdict{Plugin: s.Plugin(), Final: s.Code() == fwk.UnschedulableAndUnresolvable, Reasons: slices.Sorted(slices.Values(s.Reasons()))}
}

func put[T any](m *map[string]map[string]T, a, b string, v T) {
	if *m == nil {
		*m = map[string]map[string]T{}
	}
	if (*m)[a] == nil {
		(*m)[a] = map[string]T{}
	}
	(*m)[a][b] = v
}

// preempt runs the dry run on all nodes that preemption may help.
func (j *judge) preempt(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses *framework.NodeToStatus) *preemption {
	out := &preemption{}
	plugin := j.plugins[defaultpreemption.Name].(*defaultpreemption.DefaultPreemption)
	if ok, why := plugin.PodEligibleToPreemptOthers(ctx, pod, statuses.Get(pod.Status.NominatedNodeName)); !ok {
		out.Message = why
		return out
	}
	potential, err := statuses.NodesForStatusCode(j.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil {
		out.Message = err.Error()
		return out
	}
	pdbs, err := plugin.Evaluator.PdbLister.List(everything)
	if err != nil {
		out.Message = err.Error()
		return out
	}
	// More candidates than nodes: the dry run never ends early.
	candidates, refused, err := plugin.Evaluator.DryRunPreemption(ctx, state, pod, potential, pdbs, 0, int32(len(j.nodes)+1))
	if err != nil {
		out.Message = err.Error()
		return out
	}
	for _, c := range candidates {
		if out.Candidates == nil {
			out.Candidates = map[string]candidate{}
		}
		victims := candidate{Violations: c.Victims().NumPDBViolations}
		for _, p := range c.Victims().Pods {
			victims.Victims = append(victims.Victims, p.Namespace+"/"+p.Name)
		}
		out.Candidates[c.Name()] = victims
	}
	if len(candidates) == 0 {
		refused.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling"))
		out.Message = (&framework.FitError{Pod: pod, NumAllNodes: len(j.nodes), Diagnosis: framework.Diagnosis{NodeToStatus: refused}}).Error()
		return out
	}
	// Which of equally good nodes is chosen is left to the order of a Go map.
	for range 64 {
		if n := plugin.Evaluator.SelectCandidate(ctx, candidates).Name(); !slices.Contains(out.Chosen, n) {
			out.Chosen = append(out.Chosen, n)
		}
	}
	slices.Sort(out.Chosen)
	return out
}

// judgeAll fills in a cluster's answers.
func judgeAll(ctx context.Context, c *cluster) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	j, err := newJudge(ctx, c)
	if err != nil {
		return fmt.Errorf("%s: %w", c.ID, err)
	}
	defer j.stop()
	for _, p := range c.Ask {
		c.Answers = append(c.Answers, j.answer(ctx, p, c.Family == "Preemption" || c.Family == "Table-defaultpreemption"))
	}
	return nil
}
