package conformance

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// Plain are the tests by their names. Each takes an empty storage of example pods below /pods.
func Plain() map[string]func(context.Context, *testing.T, storage.Interface) {
	return map[string]func(context.Context, *testing.T, storage.Interface){
		"CreateWithTTL":      storagetesting.RunTestCreateWithTTL,
		"CreateWithKeyExist": storagetesting.RunTestCreateWithKeyExist,
		"Get": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestGet(ctx, t, lasting{s})
		},
		"UnconditionalDelete":                        storagetesting.RunTestUnconditionalDelete,
		"ConditionalDelete":                          storagetesting.RunTestConditionalDelete,
		"DeleteWithSuggestion":                       storagetesting.RunTestDeleteWithSuggestion,
		"DeleteWithSuggestionAndConflict":            storagetesting.RunTestDeleteWithSuggestionAndConflict,
		"DeleteWithConflict":                         storagetesting.RunTestDeleteWithConflict,
		"DeleteWithSuggestionOfDeletedObject":        storagetesting.RunTestDeleteWithSuggestionOfDeletedObject,
		"ValidateDeletionWithSuggestion":             storagetesting.RunTestValidateDeletionWithSuggestion,
		"ValidateDeletionWithOnlySuggestionValid":    storagetesting.RunTestValidateDeletionWithOnlySuggestionValid,
		"PreconditionalDeleteWithSuggestion":         storagetesting.RunTestPreconditionalDeleteWithSuggestion,
		"PreconditionalDeleteWithOnlySuggestionPass": storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass,
		"ListPaging":                                 storagetesting.RunTestListPaging,
		"GetListRecursivePrefix":                     storagetesting.RunTestGetListRecursivePrefix,
		"NamespaceScopedList":                        storagetesting.RunTestNamespaceScopedList,
		"GuaranteedUpdateWithTTL":                    storagetesting.RunTestGuaranteedUpdateWithTTL,
		"GuaranteedUpdateWithConflict":               storagetesting.RunTestGuaranteedUpdateWithConflict,
		"GuaranteedUpdateWithSuggestionAndConflict":  storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict,
		"KeySchema":                                  storagetesting.RunTestKeySchema,
		"Watch":                                      storagetesting.RunTestWatch,
		"DeleteTriggerWatch":                         storagetesting.RunTestDeleteTriggerWatch,
		"WatchFromNonZero":                           storagetesting.RunTestWatchFromNonZero,
		"DelayedWatchDelivery":                       storagetesting.RunTestDelayedWatchDelivery,
		"WatcherTimeout":                             storagetesting.RunTestWatcherTimeout,
		"WatchDeleteEventObjectHaveLatestRV":         storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV,
		"WatchInitializationSignal":                  storagetesting.RunTestWatchInitializationSignal,
		"ClusterScopedWatch":                         storagetesting.RunTestClusterScopedWatch,
		"NamespaceScopedWatch":                       storagetesting.RunTestNamespaceScopedWatch,
	}
}

// lasting has what is updated to live for a while live for an hour: RunTestGet gives its pod a second, after which a
// busy machine is not through with it.
type lasting struct{ storage.Interface }

func (l lasting) GuaranteedUpdate(ctx context.Context, key string, into runtime.Object, ignoreNotFound bool, p *storage.Preconditions, change storage.UpdateFunc, cached runtime.Object) error {
	return l.Interface.GuaranteedUpdate(ctx, key, into, ignoreNotFound, p, func(was runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		now, ttl, err := change(was, meta)
		if ttl != nil {
			*ttl = 3600
		}
		return now, ttl, err
	}, cached)
}
