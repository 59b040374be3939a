extern int32_t label;
