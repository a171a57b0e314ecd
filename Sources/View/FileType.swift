import BackingTree

/// swift-system has a type of that name too; here it always is the backing tree's.
typealias FileType = BackingTree.FileType
