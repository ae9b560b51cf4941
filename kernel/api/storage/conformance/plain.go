package conformance

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// Plain are the tests by their names. Each takes an empty storage of example pods below /pods.
func Plain() map[string]func(context.Context, *testing.T, storage.Interface) {
	return map[string]func(context.Context, *testing.T, storage.Interface){
		"CreateWithTTL":                              storagetesting.RunTestCreateWithTTL,
		"CreateWithKeyExist":                         storagetesting.RunTestCreateWithKeyExist,
		"Get":                                        storagetesting.RunTestGet,
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
