//go:build race

package store

// RaceEnabled says that tests run several times slower.
const RaceEnabled = true
